"""Counts of a real PostgreSQL and a real MySQL into Delta equal the changes made, however often the replicator was stopped and killed."""

from __future__ import annotations

import random
import re
import signal
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path

import pytest

from tests.crash.counts.counted_changes import TABLES, CountedChanges, Counts
from tests.crash.kills import kill, killed
from tests.depth import ALL_CASES
from tests.end_to_end.replicator import Replicator, Running, mysql_source, postgres_source
from tests.runtime.exposition.conftest import parsed
from tests.services.postgres.server import PostgresDatabase
from tests.services.processes import LOOPBACK, free_port

_POINTS = (
    "delta.commit.after",
    "engine.offset.before_save",
    "engine.ddl.after_apply",
    "engine.batch.applied",
    "state.put.between",
    "engine.offset.after_save",
    "engine.ddl.before_apply",
    "delta.commit.before",
)
_ENDS = 20 if ALL_CASES else 5
_SETTINGS = {"batch": {"maxIntervalSeconds": 0.2}}


class Counted:
    """A replicator of counted changes, and what it shows of its counts."""

    def __init__(self, database: object, folder: Path) -> None:
        source = postgres_source(database) if isinstance(database, PostgresDatabase) else mysql_source(database)  # type: ignore[arg-type]
        self.schema = "public" if isinstance(database, PostgresDatabase) else database.name  # type: ignore[attr-defined]
        key = "schema" if self.schema == "public" else "database"
        tables = [{key: self.schema, "table": table} for table in TABLES]
        self.text_file = folder / "shop.prom"
        self.address = f"{LOOPBACK}:{free_port()}"
        metrics = {"textfile": str(self.text_file), "address": self.address}
        self.replicator = Replicator(folder, source, settings={**_SETTINGS, "tables": tables, "metrics": metrics})

    def streams(self, running: Running) -> Counts:
        """Wait until the run streams; what its metrics say then."""
        deadline = time.monotonic() + 300
        while True:
            assert time.monotonic() < deadline, running.log.read_text(errors="replace")[-3000:]
            try:
                with urllib.request.urlopen(f"http://{self.address}/metrics", timeout=30) as answer:
                    text = answer.read().decode()
            except (urllib.error.URLError, OSError):
                text = ""
            if re.search(r'replicator_phase\{phase="streaming",pipeline="shop"\} 1.0', text):
                return self.counts(text)
            assert running.process.poll() is None, running.log.read_text(errors="replace")[-3000:]
            time.sleep(0.1)

    def counts(self, text: str) -> Counts:
        """The counters of changes and of changes of structure, in the text form of metrics."""
        found: Counts = Counter()
        for (name, labels), value in parsed(text).items():
            if name in {"replicator_changes_total", "replicator_ddl_total"} and value:
                said = dict(labels)
                found[said["table"].rpartition(".")[2], said.get("op", "ddl")] += int(value)
        return found

    def of_status(self) -> Counts:
        """The counters of `status --json`, under the seed's names, without the rows of copies."""
        ended = self.replicator.start_command("status", str(self.replicator.pipeline)).wait()
        found: Counts = Counter()
        for table, metrics in ended.envelope["data"]["metrics"]["tables"].items():
            name = table.rpartition(".")[2]
            for key, value in metrics["counters"].items():
                if key.startswith(("target.dml.", "target.ddl")):
                    found[name, key.rpartition(".")[2]] += value
            found[name, "insert"] -= metrics["counters"]["target.snapshot.rows"]
        return +found


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ["postgres", "mysql"])
def test_counts_equal_the_changes_made_over_stops_and_kills(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    database = request.getfixturevalue(f"{kind}_database")
    changes = CountedChanges(database, seed=5)
    counted, chance, shown = Counted(database, tmp_path), random.Random(11), Counter[tuple[str, str]]()
    counted.streams(running := counted.replicator.start())
    with changes:
        for end in range(_ENDS):
            if end:
                point = _POINTS[end // 3 % len(_POINTS)] if end % 3 == 1 else ""
                failpoint = f"{point}=kill@{chance.randint(1, 4)}" if point else ""
                running = counted.replicator.start(REPLICATOR_FAILPOINTS=failpoint)
                if point:
                    killed(running, point, seconds=120)
                    continue
                if end % 6 != 5:  # else at any time of its beginning
                    now, made = counted.streams(running), changes.made
                    assert not (shown - now), "a count went back"
                    assert not (now - made), "more is counted than was changed"
                    shown = now
            time.sleep(chance.uniform(0, 4))
            if end % 3 == 0:
                assert running.stop().status == 128 + signal.SIGTERM
            else:
                kill(running)
    counted.replicator.until_current(seconds=900)
    assert counted.counts(counted.text_file.read_text()) == changes.made
    assert counted.of_status() == changes.made
    assert changes.made.keys() >= {("item", "ddl"), ("item", "delete"), ("entry", "update")}
