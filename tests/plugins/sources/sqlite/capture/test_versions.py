"""What is stored of former columns of tables stays as long as a change or an offset can need it, and no longer."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from replicator_sdk import DDLEvent, TableId, TableSchema, failpoint
from replicator_sdk.errors import HistoryLostError, RetryableError
from replicator_sdk.testing.histories.reference import RowChange
from replicator_sdk.testing.recording import recording
from replicator_source_sqlite.capture.changelog import last_change
from replicator_source_sqlite.capture.ddl_detection import synchronise
from replicator_source_sqlite.capture.pruning import prune
from replicator_source_sqlite.capture.readers import remember_reader
from replicator_source_sqlite.capture.versions import Version, forget_unneeded, refresh_versions
from replicator_source_sqlite.connection import connect
from replicator_source_sqlite.offset import SqliteOffset
from tests.plugins.sources.sqlite.source_system import SqliteSystem

T = TableId("main", "t")
OWN = "default/conformance/1"


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[SqliteSystem]:
    made = SqliteSystem(tmp_path / "shop.db")
    made.database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, c TEXT)")
    yield made
    made.close()


@pytest.fixture
def schemas(shop: SqliteSystem) -> dict[TableId, TableSchema]:
    with shop.source.create_table_registry() as registry:
        return {T: registry.describe_table(T)}


@pytest.fixture
def database(shop: SqliteSystem, schemas: dict[TableId, TableSchema]) -> Iterator[sqlite3.Connection]:
    """The captured database, as the source opens it."""
    with recording(shop.source, schemas, None), connect(shop.path) as opened:
        yield opened


def stored(database: sqlite3.Connection) -> list[int]:
    return [n for (n,) in database.execute("SELECT version FROM _replicator_tables ORDER BY version")]


def rename(database: sqlite3.Connection, number: int) -> int:
    """A row under the former name of the column, then another name; returns the change that records it."""
    (name,) = database.execute("SELECT name FROM pragma_table_info('t') WHERE cid = 1").fetchone()
    database.execute(f'INSERT INTO t (id, "{name}") VALUES (?, ?)', (number, f"v{number}"))
    database.execute(f'ALTER TABLE t RENAME COLUMN "{name}" TO c{number}')
    synchronise(database, 0)
    return last_change(database)


def prune_all(database: sqlite3.Connection) -> None:
    while prune(database, 3):
        pass


def read_from(shop: SqliteSystem, schema: TableSchema, offset: int) -> list[str]:
    """What a reader emits that begins there: columns after each schema change, rows as `column=value`."""
    with recording(shop.source, {T: schema}, SqliteOffset(offset)) as reader:
        reader.run()
        logged = [entry.change for entry in reader.catch_up(20)]
    found = []
    for change in logged:
        if isinstance(change, DDLEvent):
            assert change.schema is not None
            found.append(f"{change.schema.names[1]}:")
        elif isinstance(change, RowChange):
            name = change.schema.names[1]
            found.append(f"{name}={change.row[name]}")
    return found


def test_after_a_thousand_schema_changes_the_next_one_costs_what_the_first_cost(
    database: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All were kept for ever, and each schema change and each start parsed all of them."""
    parsed: list[object] = []
    from_json = TableSchema.from_json

    def counted(value: object) -> TableSchema:
        parsed.append(value)
        return from_json(value)  # type: ignore[arg-type]

    monkeypatch.setattr(TableSchema, "from_json", counted)
    database.execute("PRAGMA synchronous = OFF")
    known: dict[int, Version] = {}
    costs: list[int] = []
    for number in range(1000):
        parsed.clear()
        remember_reader(database, OWN, rename(database, number))
        prune_all(database)
        refresh_versions(database, known)
        costs.append(len(parsed))
        assert len(stored(database)) <= 2
        assert len(known) <= 2
    assert set(costs[1:]) == {costs[1]}
    parsed.clear()
    refresh_versions(database, {})
    assert len(parsed) <= 2


def test_a_reader_that_lags_has_every_version_that_its_changes_need(
    shop: SqliteSystem, schemas: dict[TableId, TableSchema], database: sqlite3.Connection
) -> None:
    remember_reader(database, "default/other/1", 0)
    for number in range(6):
        remember_reader(database, OWN, rename(database, number))
        prune_all(database)
    assert stored(database) == [1, 2, 3, 4, 5, 6, 7]
    expected = ["c=v0", "c0:", "c0=v1", "c1:", "c1=v2", "c2:", "c2=v3", "c3:", "c3=v4", "c4:", "c4=v5", "c5:"]
    assert read_from(shop, schemas[T], 0) == expected
    remember_reader(database, OWN, last_change(database))
    remember_reader(database, "default/other/1", 6)
    prune_all(database)
    assert stored(database) == [3, 4, 5, 6, 7], "the change 6 is kept, and with it what was before"


def test_every_kept_offset_can_be_gone_back_to_and_none_before(
    shop: SqliteSystem, schemas: dict[TableId, TableSchema], database: sqlite3.Connection
) -> None:
    """As `replicator rewind` does within `keepChangesHours`: the log has more than the reader needs."""
    ends = [rename(database, number) for number in range(5)]
    described: dict[int, Version] = {}
    refresh_versions(database, described)
    whole = read_from(shop, schemas[T], 0)
    database.execute("UPDATE _replicator_changes SET at = 1000000 WHERE id < ?", (ends[2],))
    remember_reader(database, OWN, ends[-1])
    while prune(database, 1, until=2_000_000):
        pass
    (pruned,) = database.execute("SELECT value FROM _replicator_facts WHERE name = 'pruned'").fetchone()
    assert (pruned, stored(database)) == (ends[2] - 1, [3, 4, 5, 6])
    for offset in range(pruned, ends[-1] + 1):
        holding = [v for v in described.values() if v.since <= offset][-1]
        assert read_from(shop, holding.schema, offset) == whole[offset:], offset
    with pytest.raises(HistoryLostError, match="RPL-3506"):
        read_from(shop, schemas[T], pruned - 1)


def test_a_number_is_not_used_again(shop: SqliteSystem, database: sqlite3.Connection) -> None:
    """A reader that knows the former version of the number would decode the new table's rows with its columns."""
    with shop.source.create_table_registry() as registry:
        for number in (2, 3, 4):
            database.execute("CREATE TABLE u (id INTEGER PRIMARY KEY)")
            schema = registry.describe_table(TableId("main", "u"))
            with recording(shop.source, {schema.table: schema}, SqliteOffset(last_change(database))):
                assert stored(database) == [1, number]
            database.execute("INSERT OR IGNORE INTO u VALUES (1), (1)")  # leaves a noted row
            database.execute("DROP TABLE u")
            synchronise(database, 0)
            database.execute(f"INSERT INTO t (id) VALUES ({number})")
            remember_reader(database, OWN, last_change(database))
            prune_all(database)
            assert stored(database) == [1]
            assert database.execute("SELECT count(*) FROM _replicator_replaced").fetchone() == (0,)


def test_what_an_earlier_version_kept_for_ever_is_removed_once(
    shop: SqliteSystem, schemas: dict[TableId, TableSchema], database: sqlite3.Connection
) -> None:
    for number in range(4):
        rename(database, number)
    expected = read_from(shop, schemas[T], 0)[4:]
    database.execute("DELETE FROM _replicator_changes WHERE id <= 4")  # as it pruned
    database.execute("UPDATE _replicator_facts SET value = 4 WHERE name = 'pruned'")
    database.execute("DELETE FROM _replicator_facts WHERE name = 'only needed versions'")
    known: dict[int, Version] = {}
    refresh_versions(database, known)
    forget_unneeded(database)
    assert stored(database) == [3, 4, 5]
    assert read_from(shop, known[3].schema, 4) == expected
    reads: list[str] = []
    database.set_trace_callback(reads.append)
    forget_unneeded(database)
    assert not any("_replicator_changes" in statement for statement in reads)


@pytest.mark.parametrize("point", ["sqlite.prune.before_commit", "sqlite.prune.committed"])
def test_a_change_and_the_version_that_it_ended_are_removed_together(
    point: str, shop: SqliteSystem, schemas: dict[TableId, TableSchema], database: sqlite3.Connection
) -> None:
    ends = [rename(database, number) for number in range(3)]
    remember_reader(database, OWN, ends[-1])
    failpoint.arm(f"{point}=raise")
    try:
        with pytest.raises(RetryableError, match=point):
            prune(database, ends[0])
    finally:
        failpoint.arm("")
    kept = database.execute("SELECT count(*) FROM _replicator_changes").fetchone()
    whole = point.endswith("before_commit")
    assert (kept, stored(database)) == (((6,), [1, 2, 3, 4]) if whole else ((4,), [2, 3, 4]))
    prune_all(database)
    assert stored(database) == [3, 4]
