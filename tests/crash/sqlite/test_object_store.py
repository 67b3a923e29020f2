"""State and Delta on an S3 server: kills end as they do on a disk."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from tests.crash.kills import killed
from tests.crash.one_process import CopyInProcess, OneProcess
from tests.crash.sqlite.database import Database
from tests.crash.sqlite.pair import Pair
from tests.crash.three_runs import ThreeRuns
from tests.end_to_end.replicator import Replicator
from tests.services.s3.server import S3Server
from tests.services.s3.spark import s3a_settings
from tests.services.spark.session import SMALL


class PairOnS3(Pair):
    """A pair whose state and lake are in a bucket."""

    @property
    def lake(self) -> str:
        """Where the tables are."""
        assert self.replicator.target is not None
        return str(self.replicator.target[1]["path"])

    def _copy(self, table: str) -> Counter[tuple[Any, ...]]:
        copy = DeltaTable(f"{self.lake}/main/{table}", storage_options={"aws_allow_http": "true"})
        there = {field.name for field in copy.schema().fields}
        listed = ", ".join(f'"{name}"' for name in self.database.columns(table) if name in there)
        rows: Counter[tuple[Any, ...]] = Counter()
        for batch in QueryBuilder().register("copy", copy).execute(f"SELECT {listed} FROM copy"):
            columns = [column.to_pylist() for column in pa.record_batch(batch).columns]
            rows.update(zip(*columns, strict=True))
        return rows


@pytest.fixture
def pair(tmp_path: Path, s3_server: S3Server, s3_bucket: str) -> Iterator[PairOnS3]:
    """A database with rows, and a replicator whose state and tables are in the bucket."""
    database = Database(tmp_path / "source.db")
    database.create()
    settings = {
        "offsetBasePath": f"s3://{s3_bucket}/state",
        "batch": {"maxIntervalSeconds": 0.1},
        "retries": {"maxDurationSeconds": 60, "delaySeconds": 0.2},
        "spark": {"master": "local[2]", "conf": {**SMALL, **s3a_settings(s3_server.endpoint)}},
    }
    target = ("delta", {"path": f"s3://{s3_bucket}/lake"})
    replicator = Replicator(tmp_path, ("sqlite", {"path": str(database.path)}), target, settings)
    yield PairOnS3(database, replicator, random.Random(1))
    assert _written_twice(s3_server) == []


def _written_twice(server: S3Server) -> list[str]:
    """Commits, claims and offsets that the server has taken more than once."""
    taken = Counter(
        path for path, status in server.requests("PUT", r"_delta_log/\d+\.json|/(epoch|offset)\.\d+$") if status == 200
    )
    assert taken
    return [path for path, times in taken.items() if times > 1]


def test_three_runs_after_kills_around_a_commit_to_s3_are_equal(pair: PairOnS3, tmp_path: Path) -> None:
    killed(pair.start("--until-current", point="delta.commit.after"), "delta.commit.after")
    pair.change_rows()
    with OneProcess(tmp_path / "process") as process:
        for point in ("delta.commit.before", "delta.commit.after", "delta.ddl.before"):
            pair.change_rows()
            if "ddl" in point:
                pair.change_structure()
            process.kill_at(pair.replicator.document(), point)
        pair.change_rows()
        ThreeRuns(pair, [CopyInProcess(process, pair.replicator.document, pair.differences)]).check()
