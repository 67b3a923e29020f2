"""The source: pruning, restored databases, snapshots, errors and concurrent writers."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from replicator_sdk import DDLEvent, EventReaderDefinition, Severity, TableId, TableSchema
from replicator_sdk.errors import BugError, HistoryLostError, NeedsUserError, RetryableError
from replicator_sdk.offset import NumberOffset
from replicator_sdk.testing.contexts import CollectingEmitter, TestSourceContext
from replicator_sdk.testing.histories.reference import RowChange
from replicator_sdk.testing.histories.values import difference
from replicator_sdk.testing.recording import interpret, recording
from replicator_source_sqlite import connection
from replicator_source_sqlite.config import SqliteConfig
from replicator_source_sqlite.offset import SqliteOffset
from replicator_source_sqlite.plugin import SqliteSource
from replicator_source_sqlite.streaming import reader
from tests.plugins.sources.sqlite.source_system import SqliteSystem


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[SqliteSystem]:
    made = SqliteSystem(tmp_path / "shop.db", batch_rows=50)
    made.database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)")
    yield made
    made.close()


@pytest.fixture
def schemas(shop: SqliteSystem) -> dict[TableId, TableSchema]:
    with shop.source.create_table_registry() as registry:
        return {TableId("main", "t"): registry.describe_table(TableId("main", "t"))}


def count(shop: SqliteSystem, table: str) -> int:
    return int(shop.database.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def fill(shop: SqliteSystem, first: int, rows: int) -> None:
    shop.database.execute("BEGIN")
    shop.database.executemany("INSERT INTO t VALUES (?, ?)", [(i, f"v{i}") for i in range(first, first + rows)])
    shop.database.execute("COMMIT")


def test_the_log_is_pruned_up_to_what_every_reader_has_read(
    shop: SqliteSystem, schemas: dict[TableId, TableSchema], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_PRUNE_SECONDS", 0.0)
    other = shop.source.create_reader(EventReaderDefinition(schemas), _named("other"), CollectingEmitter())
    other.initialize(None)
    other.close()
    with recording(shop.source, schemas, None) as first:
        first.run()
        fill(shop, 0, 120)
        first.catch_up(20)
        assert count(shop, "_replicator_changes") == 120
        first.context.committed = SqliteOffset(100)
        _settle(lambda: _position(shop, "default/conformance/1") == 100)
        assert count(shop, "_replicator_changes") == 120, "the other reader has seen nothing yet"
        shop.database.execute("UPDATE _replicator_readers SET change = 70 WHERE name = 'default/other/1'")
        first.context.committed = SqliteOffset(110)
        _settle(lambda: count(shop, "_replicator_changes") == 51)
    with pytest.raises(HistoryLostError, match="RPL-3506"), recording(shop.source, schemas, SqliteOffset(68)):
        pass
    with recording(shop.source, schemas, SqliteOffset(70)) as again:
        again.run()
        assert len(again.catch_up(20)) == 50


def test_a_restored_copy_is_refused(shop: SqliteSystem, schemas: dict[TableId, TableSchema]) -> None:
    with recording(shop.source, schemas, None):
        fill(shop, 0, 3)
    with pytest.raises(HistoryLostError, match="RPL-3507"), recording(shop.source, schemas, SqliteOffset(4)):
        pass


def _copy(shop: SqliteSystem, name: str) -> Path:
    copy = shop.path.with_name(name)
    with sqlite3.connect(copy) as database:
        shop.database.backup(database)
    database.close()
    return copy


def _restore_in_place(shop: SqliteSystem, copy: Path) -> None:
    with sqlite3.connect(copy) as database:
        database.backup(shop.database)
    database.close()


def test_a_restored_copy_that_was_written_since_is_refused(
    shop: SqliteSystem, schemas: dict[TableId, TableSchema]
) -> None:
    """The numbers of its changes reach further than the saved offset; they are other changes."""
    with recording(shop.source, schemas, None) as one:
        one.run()
        fill(shop, 0, 3)
        copy = _copy(shop, "copy.db")
        fill(shop, 3, 10)
        one.catch_up(20)
        saved = one.emitter.last_offset
    assert saved is not None
    again = SqliteOffset.from_fields(saved.fields())
    time.sleep(0.01)
    _restore_in_place(shop, copy)
    fill(shop, 100, 50)
    with pytest.raises(HistoryLostError, match=r"RPL-3507.*another change"), recording(shop.source, schemas, again):
        pass


@pytest.mark.parametrize("written", [0, 50])
def test_a_copy_restored_in_place_is_noticed_while_it_is_read(
    shop: SqliteSystem, schemas: dict[TableId, TableSchema], written: int
) -> None:
    with recording(shop.source, schemas, None) as one:
        fill(shop, 0, 3)
        copy = _copy(shop, "copy.db")
        fill(shop, 3, 10)
        one.run()
        one.catch_up(20)
        time.sleep(0.01)
        _restore_in_place(shop, copy)
        fill(shop, 100, written)
        _settle(lambda: one.error is not None)
        assert isinstance(one.error, HistoryLostError)
        assert one.error.code == "RPL-3507"


def test_a_file_that_replaces_the_one_being_read_is_noticed(
    shop: SqliteSystem, schemas: dict[TableId, TableSchema]
) -> None:
    """A connection would continue with the old file, which never changes again."""
    with recording(shop.source, schemas, None) as one:
        fill(shop, 0, 3)
        one.run()
        one.catch_up(20)
        _copy(shop, "copy.db").replace(shop.path)
        _settle(lambda: one.error is not None)
        assert isinstance(one.error, RetryableError)
        assert one.error.code == "RPL-3513"


def test_a_snapshot_is_after_every_schema_change_that_it_shows(
    shop: SqliteSystem, schemas: dict[TableId, TableSchema]
) -> None:
    """An ALTER that no reader has noticed yet is in the log before the copy is made, not after it."""
    with recording(shop.source, schemas, None) as one:
        fill(shop, 0, 3)
        shop.database.execute("ALTER TABLE t ADD COLUMN w TEXT")
        snapshots = shop.source.create_snapshot_reader(EventReaderDefinition(schemas), one.context)
        assert snapshots is not None
        with snapshots.open(schemas[TableId("main", "t")]) as snapshot:
            position = snapshot.position
        one.run()
        one.catch_up(20)
        [ddl] = one.placed()
        assert not position < ddl.end


def test_a_window_never_ends_inside_a_transaction(shop: SqliteSystem, schemas: dict[TableId, TableSchema]) -> None:
    """However small the batches, what is committed between two looks is one window."""
    with recording(shop.source, schemas, None) as one:
        fill(shop, 0, 173)
        one.run()
        one.catch_up(20)
        window = one.emitter.closed_windows[0]
    assert sum(len(ordinals) for ordinals in window.ordinals) == 173
    assert len(window.ordinals) == 4, "batches of 50 rows"


def test_values_beyond_the_type_are_counted(shop: SqliteSystem) -> None:
    shop.database.executescript("CREATE TABLE d (id INTEGER PRIMARY KEY, day DATE)")
    with shop.source.create_table_registry() as registry:
        schema = registry.describe_table(TableId("main", "d"))
    config = SqliteConfig(path=shop.path, poll_interval_seconds=0.01, out_of_range="null")  # type: ignore[arg-type]
    with recording(SqliteSource(config), {schema.table: schema}, None) as one:
        shop.database.executescript("INSERT INTO d VALUES (1, 'no day'), (2, '2024-01-01'), (3, 17)")
        one.run()
        rows = interpret(one.schemas, one.catch_up(20)).tables[schema.table].rows
        assert one.context.metrics.counters["values.out_of_range"] == 2  # type: ignore[attr-defined]
    assert [str(row["day"]) for row in rows] == ["None", "2024-01-01", "None"]


def test_writers_are_not_blocked_by_reader_or_snapshot(shop: SqliteSystem, schemas: dict[TableId, TableSchema]) -> None:
    """An application without any lock timeout can write while table and log are read."""
    fill(shop, 0, 2000)
    shop.database.execute("PRAGMA busy_timeout = 0")
    stop, errors, written = threading.Event(), [], 0
    with recording(shop.source, schemas, None) as one:
        one.run()

        def read() -> None:
            snapshots = shop.source.create_snapshot_reader(EventReaderDefinition(schemas), one.context)
            assert snapshots is not None
            while not stop.is_set():
                with snapshots.open(schemas[TableId("main", "t")]) as snapshot:
                    errors.extend([] if sum(1 for c in snapshot.chunks for _ in snapshot.read(c)) else ["empty"])

        thread = threading.Thread(target=read)
        thread.start()
        for i in range(300):
            shop.database.execute("INSERT INTO t VALUES (?, 'while read')", (10_000 + i,))
            written += 1
        stop.set()
        thread.join()
        logged = one.catch_up(20)
    assert errors == []
    assert written == len(logged) == 300


def test_a_copy_leaves_no_files(shop: SqliteSystem, schemas: dict[TableId, TableSchema], tmp_path: Path) -> None:
    folder = tmp_path / "copies"
    folder.mkdir()
    source = SqliteSource(SqliteConfig(path=shop.path, snapshot_folder=folder))
    snapshots = source.create_snapshot_reader(EventReaderDefinition(schemas), TestSourceContext())
    assert snapshots is not None
    with recording(source, schemas, None):
        snapshot = snapshots.open(schemas[TableId("main", "t")])
        assert list(folder.iterdir())
        snapshot.close()
        snapshot.close()
        assert list(folder.iterdir()) == []
        shop.database.execute("DROP TABLE t")
        with pytest.raises(RetryableError, match="RPL-3512"):
            snapshots.open(schemas[TableId("main", "t")])
        assert list(folder.iterdir()) == []


def test_chunks_of_an_interrupted_snapshot_still_divide_the_table(
    shop: SqliteSystem, schemas: dict[TableId, TableSchema]
) -> None:
    """Bounds kept from an earlier plan cover rows that came since, below, between and above."""
    fill(shop, 0, 1000)
    source = SqliteSource(SqliteConfig(path=shop.path, chunk_rows=100))
    snapshots = source.create_snapshot_reader(EventReaderDefinition(schemas), TestSourceContext())
    assert snapshots is not None
    (schema,) = schemas.values()
    with recording(source, schemas, None):
        with snapshots.open(schema) as first:
            assert first.resumable
            chunks = first.chunks
        assert len(chunks) == 11
        fill(shop, -50, 50)
        fill(shop, 5000, 50)
        shop.database.execute("DELETE FROM t WHERE id % 7 = 0")
        with snapshots.open(schema, chunks) as second:
            assert second.chunks == chunks
            rows = [row for chunk in chunks for batch in second.read(chunk) for row in batch.to_pylist()]
    assert not difference(schema, shop.read_table(schema), rows)


@pytest.mark.parametrize("content", [None, b"this is no database, but long enough to look at" * 50])
def test_a_file_that_is_not_a_database_needs_the_user(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "missing.db"
    if content is not None:
        path.write_bytes(content)
    source = SqliteSource(SqliteConfig(path=path))
    with pytest.raises(NeedsUserError, match="RPL-3502") as caught:
        source.identity()
    assert caught.value.hint
    with source.create_table_assessor() as assessor:
        assert [f.code for f in assessor.assess().findings] == ["RPL-3502"]
    assert path.exists() == (content is not None), "nothing is created"


def test_a_locked_database_is_retried(shop: SqliteSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "BUSY_SECONDS", 0.05)
    shop.database.execute("BEGIN IMMEDIATE")
    with pytest.raises(RetryableError, match="RPL-3504"):
        shop.source.identity()
    shop.database.execute("ROLLBACK")
    assert shop.source.identity()


def test_a_journal_mode_that_blocks_writers_is_a_finding(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    sqlite3.connect(path).execute("CREATE TABLE t (a)").connection.close()
    with SqliteSource(SqliteConfig(path=path)).create_table_assessor() as assessor:
        found = {finding.name: finding for finding in assessor.assess().findings}
    assert found["journal_mode"].fix == "PRAGMA journal_mode = WAL;"


def test_that_columns_cannot_be_dropped_beside_the_triggers_is_said_before_they_are_there(shop: SqliteSystem) -> None:
    with shop.source.create_table_assessor() as assessor:
        (finding,) = assessor.assess().findings
    assert (finding.name, finding.severity) == ("drop_column", Severity.INFO)


def test_a_foreign_offset_is_refused(shop: SqliteSystem, schemas: dict[TableId, TableSchema]) -> None:
    with pytest.raises(NeedsUserError, match="RPL-3501"):
        SqliteOffset.from_fields({"lsn": bytes(8)})
    with pytest.raises(BugError), recording(shop.source, schemas, NumberOffset(1)):
        pass


def test_internal_and_virtual_tables_are_not_listed(shop: SqliteSystem, schemas: dict[TableId, TableSchema]) -> None:
    shop.database.executescript("CREATE VIEW v AS SELECT 1; CREATE TABLE a (x INTEGER PRIMARY KEY AUTOINCREMENT)")
    with recording(shop.source, schemas, None), shop.source.create_table_registry() as registry:
        assert [summary.table.table for summary in registry.list_tables()] == ["a", "t"]
        with pytest.raises(NeedsUserError, match="RPL-3505"):
            registry.describe_table(TableId("main", "_replicator_changes"))


def _named(name: str) -> TestSourceContext:
    return TestSourceContext(name)


def _position(shop: SqliteSystem, name: str) -> int:
    row = shop.database.execute("SELECT change FROM _replicator_readers WHERE name = ?", (name,)).fetchone()
    return int(row[0]) if row else -1


def _settle(condition: object) -> None:
    pause = threading.Event()
    for _ in range(500):
        if condition():  # type: ignore[operator]
            return
        pause.wait(0.02)
    raise AssertionError("the condition did not come true")


def test_a_table_that_takes_the_name_of_a_dropped_one_is_renamed(shop: SqliteSystem) -> None:
    shop.database.execute("CREATE TABLE u (id INTEGER PRIMARY KEY, v TEXT)")
    names = [TableId("main", name) for name in ("t", "u")]
    with shop.source.create_table_registry() as registry:
        both = {table: registry.describe_table(table) for table in names}
    with recording(shop.source, both, None) as reader:
        reader.run()
        shop.database.execute("DROP TABLE t")
        shop.database.execute("ALTER TABLE u RENAME TO t")
        fill(shop, 5, 1)
        logged = reader.catch_up(20)
    events = [entry.change for entry in logged if isinstance(entry.change, DDLEvent)]
    assert [(event.operation, event.table.table) for event in events] == [("DROP_TABLE", "t"), ("RENAME_TABLE", "t")]


def test_a_later_table_of_a_name_is_read_by_a_replay_from_before_the_rename(
    shop: SqliteSystem, schemas: dict[TableId, TableSchema]
) -> None:
    """It was copied after the offset; the runtime leaves the former table's changes out by their position."""
    with recording(shop.source, schemas, None) as first:
        first.run()
        fill(shop, 0, 1)
        shop.database.execute("ALTER TABLE t RENAME TO u")
        first.catch_up(20)
    shop.database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)")
    tables = list(schemas.values())
    with recording(shop.source, schemas, first.start, capture=tables, state=first.context.state) as again:
        fill(shop, 5, 1)
        again.run()
        rows = [entry.change for entry in again.catch_up(20) if isinstance(entry.change, RowChange)]
    assert [(change.schema.table.table, change.row["id"]) for change in rows] == [("t", 0), ("t", 5)]
