"""A table is captured once, whatever name it takes while tables are captured."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from replicator_sdk import EventReaderDefinition, TableId
from replicator_sdk.testing.contexts import CollectingEmitter, TestSourceContext
from replicator_source_sqlite.capture.versions import live_versions
from replicator_source_sqlite.connection import connect, transaction
from tests.plugins.sources.sqlite.source_system import SqliteSystem


@pytest.mark.timeout(30)
def test_a_captured_table_that_takes_the_name_of_one_to_be_captured_is_not_captured_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = SqliteSystem(tmp_path / "shop.db")
    shop.database.execute("CREATE TABLE a (id INTEGER PRIMARY KEY)")
    shop.database.execute("CREATE TABLE b (id INTEGER PRIMARY KEY)")
    with shop.source.create_table_registry() as registry:
        a, b = (registry.describe_table(TableId("main", name)) for name in "ab")
    reader = shop.source.create_reader(EventReaderDefinition({}), TestSourceContext(), CollectingEmitter())
    reader.initialize(None)
    reader.capture([a])
    statements = ["DROP TABLE b", "ALTER TABLE a RENAME TO b", "CREATE TABLE a (id INTEGER PRIMARY KEY)"]

    @contextmanager
    def begun(database: sqlite3.Connection, *, write: bool = False) -> Iterator[None]:
        while write and statements:
            shop.database.execute(statements.pop(0))
        with transaction(database, write=write):
            yield

    monkeypatch.setattr("replicator_source_sqlite.streaming.reader.transaction", begun)
    reader.capture([a, b])
    shop.database.execute("INSERT INTO b VALUES (1)")
    with connect(shop.path) as database:
        live = sorted(version.schema.table.table for version in live_versions(database))
        changes = database.execute("SELECT count(*) FROM _replicator_changes WHERE op = 1").fetchone()
    assert live == ["a", "b"]
    assert changes == (1,)
    reader.close()
    shop.close()
