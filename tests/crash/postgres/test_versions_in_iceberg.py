"""Iceberg in the mode `scd2` from a real Postgres, killed at its steps and at those of a later copy: each change is one version.

Versions are read by `pyiceberg`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable

from tests.crash.one_process import OneProcess
from tests.crash.postgres.test_versions import LARGE, Documents
from tests.depth import some
from tests.plugins.targets.iceberg.warehouse import newest_metadata
from tests.services.artifacts import iceberg_jars
from tests.services.postgres.server import PostgresDatabase

AT_THE_BEGINNING = ("iceberg.snapshot.whole_written", "iceberg.snapshot.finished")
POINTS = (
    "iceberg.files.written",
    "iceberg.commit.before",
    "iceberg.commit.after",
    "engine.offset.before_save",
    "iceberg.ddl.before",
    "iceberg.ddl.after",
)
WHOLE = "iceberg.snapshot.whole_written"
OF_COPIES = (
    "iceberg.snapshot.whole_committed",
    "iceberg.snapshot.begun",
    "iceberg.snapshot.files_written",
    "iceberg.snapshot.committed",
    "iceberg.snapshot.finished",
)


class IcebergDocuments(Documents):
    """The same into a catalog of folders."""

    def __init__(self, database: PostgresDatabase, folder: Path) -> None:
        super().__init__(database, folder)
        iceberg_jars()
        place = {"catalog": "lake", "catalogType": "hadoop", "warehouse": str(folder / "lake")}
        self.replicator.target = ("iceberg", {**place, "mode": "scd2"})

    def versions(self) -> list[dict[str, Any]]:
        """All that the lake has."""
        place = self.replicator.folder / "lake" / "public" / "document"
        rows: list[dict[str, Any]] = (
            StaticTable.from_metadata(str(newest_metadata(place))).scan().to_arrow().to_pylist()
        )
        return rows


@pytest.fixture
def documents(postgres_database: PostgresDatabase, tmp_path: Path) -> IcebergDocuments:
    return IcebergDocuments(postgres_database, tmp_path / "pair")


@pytest.mark.timeout(1800)
def test_after_a_kill_at_each_step_each_change_is_one_version(documents: IcebergDocuments, tmp_path: Path) -> None:
    with OneProcess(tmp_path / "process") as process:
        for point in AT_THE_BEGINNING:
            process.kill_at(documents.replicator.document(), point)
        assert process.run(documents.replicator.document()) == ""
        documents.expected = documents.count()
        documents.check()
        for point in some(POINTS, 2, name="iceberg versions"):
            documents.change()
            if "ddl" in point:
                documents.restructure()
            process.kill_at(documents.replicator.document(), point)
            documents.change()
            for _ in range(3):
                assert process.run(documents.replicator.document()) == "", point
                documents.check()
        documents.execute("TRUNCATE document", f"INSERT INTO document (id, title, body) VALUES (5, 'after', {LARGE})")
        documents.expected += 1
        assert process.run(documents.replicator.document()) == ""
        found = documents.check()
        assert sum(one["_is_current"] for one in found) == 1


@pytest.mark.timeout(1800)
def test_after_a_kill_of_a_later_copy_the_history_stays_and_what_is_equal_is_no_new_version(
    documents: IcebergDocuments, tmp_path: Path
) -> None:
    """A run that copies in place is killed; the next one goes on with it, chunk by chunk, which is killed as well."""
    with OneProcess(tmp_path / "process") as process:
        assert process.run(documents.replicator.document()) == ""
        documents.expected = documents.count()
        for point in some(OF_COPIES, 2, name="iceberg copies of versions"):
            documents.change()
            assert process.run(documents.replicator.document()) == ""
            documents.check()
            documents.replicator.pipeline.write_text(json.dumps(documents.replicator.document()))
            ask = ("table", "resync", str(documents.replicator.pipeline), "document", "--in-place", "--yes")
            asked = documents.replicator.start_command(*ask).wait()
            assert asked.status == 0, asked.messages
            for place in (WHOLE, point) if "whole" not in point else (point,):
                process.kill_at(documents.replicator.document(), place)
            for _ in range(3):
                assert process.run(documents.replicator.document()) == "", point
                documents.check()
                documents.change()
                documents.restructure()
            assert process.run(documents.replicator.document()) == ""
            documents.check()
