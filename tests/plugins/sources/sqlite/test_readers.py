"""Replicators of one database: each keeps what the others need, and none removes another's reader."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from replicator_sdk import EventReaderDefinition, StoredState, TableId, TableSchema
from replicator_sdk.errors import HistoryLostError, NeedsUserError
from replicator_sdk.testing.contexts import CollectingEmitter, TestSourceContext
from replicator_source_sqlite.capture import readers as capture_readers
from replicator_source_sqlite.capture.pruning import prune
from replicator_source_sqlite.capture.readers import longest_hours
from replicator_source_sqlite.config import SqliteConfig
from replicator_source_sqlite.connection import connect
from replicator_source_sqlite.offset import SqliteOffset
from replicator_source_sqlite.plugin import SqliteSource
from replicator_source_sqlite.streaming import reader as streaming
from replicator_source_sqlite.streaming.reader import SqliteReader
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


def made(
    shop: SqliteSystem, schemas: dict[TableId, TableSchema], context: TestSourceContext, hours: float = 0
) -> SqliteReader:
    source = SqliteSource(SqliteConfig(path=shop.path, keep_changes_hours=hours))
    reader = source.create_reader(EventReaderDefinition(schemas), context, CollectingEmitter())
    assert isinstance(reader, SqliteReader)
    return reader


def fill(shop: SqliteSystem, first: int, rows: int) -> None:
    shop.database.executemany("INSERT INTO t VALUES (?, 'v')", [(i,) for i in range(first, first + rows)])


def names(shop: SqliteSystem) -> list[str]:
    return [name for (name,) in shop.database.execute("SELECT name FROM _replicator_readers ORDER BY name")]


def remove(shop: SqliteSystem, stored: Sequence[StoredState]) -> str:
    """What stays, as a deletion of `default/shop` says it, which is done then."""
    clean_up = shop.source.create_clean_up(namespace="default", name="shop", stored=stored)
    assert clean_up is not None
    stays = "; ".join(item.stays for item in clean_up.find())
    clean_up.remove()
    return stays


def stored(context: TestSourceContext, offset: SqliteOffset | None = None) -> StoredState:
    return StoredState(lambda: offset, context.get_state)


@pytest.mark.parametrize("wished", ["first", "second"])
def test_changes_are_kept_for_as_long_as_one_of_the_replicators_wants(
    shop: SqliteSystem, schemas: dict[TableId, TableSchema], wished: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the other, which wants none, everything that both have passed was removed: a rewind of the first ended with RPL-3506."""
    monkeypatch.setattr(streaming, "_PRUNE_SECONDS", 0.0)
    contexts = {name: TestSourceContext(name) for name in ("first", "second")}
    readers = {n: made(shop, schemas, context, 1.0 if n == wished else 0) for n, context in contexts.items()}
    for reader in readers.values():
        reader.initialize(None)
    readers["first"].capture(list(schemas.values()))
    fill(shop, 0, 20)
    for name, reader in readers.items():
        contexts[name].committed = SqliteOffset(20)
        with connect(shop.path) as database:
            reader._prune(database)
    made(shop, schemas, contexts[wished], 1.0).initialize(SqliteOffset(5))  # as a rewind does

    with connect(shop.path) as database:
        database.execute("UPDATE _replicator_changes SET at = at - 3700 * 1000000 WHERE id <= 10")
        until = int((time.time() - 3600 * longest_hours(database)) * 1_000_000)
        assert prune(database, 100, until) == 4  # no reader needs them, and they are older than an hour


def test_hours_of_a_replicator_that_is_gone_hold_nothing(
    shop: SqliteSystem, schemas: dict[TableId, TableSchema]
) -> None:
    first, second = TestSourceContext("shop"), TestSourceContext("second")
    made(shop, schemas, first, 5.0).initialize(None)
    made(shop, schemas, second, 2.0).initialize(None)
    assert "other replicators read it: default/second/1" in remove(shop, [stored(first)])
    with connect(shop.path) as database:
        assert longest_hours(database) == 2.0
    second.generation = 2
    made(shop, schemas, second).initialize(None)
    assert names(shop) == ["default/second/2"]
    with connect(shop.path) as database:
        assert longest_hours(database) == 0


def test_of_two_replicators_of_one_name_the_one_that_began_last_removes_the_changelog(
    shop: SqliteSystem, schemas: dict[TableId, TableSchema]
) -> None:
    """A deletion of the other one, or of one that never began, removed it while it was read."""
    first, other = TestSourceContext("shop"), TestSourceContext("shop")
    made(shop, schemas, first).initialize(None)
    assert "whose state is elsewhere" in remove(shop, [stored(other)])
    other.generation, other.lost = 2, True  # as `replicator reset --lost-state` begins
    made(shop, schemas, other).initialize(None)
    assert "whose state is elsewhere" in remove(shop, [stored(first, SqliteOffset(0))])
    assert names(shop) == ["default/shop/2"]
    assert remove(shop, [stored(other), stored(TestSourceContext("shop"))]) == "; "
    assert shop.database.execute("SELECT name FROM sqlite_schema WHERE name GLOB '_replicator_*'").fetchall() == []


def test_a_replicator_of_the_same_name_with_another_state_leaves_the_reader_to_the_first(
    shop: SqliteSystem, schemas: dict[TableId, TableSchema]
) -> None:
    """It took the first one's reader over: of the changes, each of the two removed what the other one had not read."""
    first, other = TestSourceContext("shop"), TestSourceContext("shop")
    made(shop, schemas, first).initialize(None)
    for _ in range(2):
        with pytest.raises(NeedsUserError, match=r"RPL-3514.*another `name`.*--lost-state"):
            made(shop, schemas, other).initialize(None)
        assert other.state == {}
    made(shop, schemas, first).initialize(None)
    made(shop, schemas, first).initialize(SqliteOffset(0))
    other.generation = 2  # as `replicator reset` begins
    other.former = [stored(TestSourceContext("shop"))]
    with pytest.raises(NeedsUserError, match="RPL-3514"):
        made(shop, schemas, other).initialize(None)
    other.lost = True  # as with --lost-state
    made(shop, schemas, other).initialize(None)
    for offset in (None, SqliteOffset(0)):
        with pytest.raises(NeedsUserError, match="RPL-3514"):
            made(shop, schemas, first).initialize(offset)
    assert names(shop) == ["default/shop/2"]
    first.generation, first.lost = 3, True
    made(shop, schemas, first).initialize(None)
    assert names(shop) == ["default/shop/3"]
    later = TestSourceContext("shop")
    later.generation, later.former = 4, [stored(TestSourceContext("shop")), stored(first)]
    made(shop, schemas, later).initialize(None)
    assert names(shop) == ["default/shop/4"]


def test_of_two_that_begin_at_the_same_time_one_is_refused(
    shop: SqliteSystem, schemas: dict[TableId, TableSchema], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, other = TestSourceContext("shop"), TestSourceContext("shop")

    def begin_other(point: str) -> None:
        if point == "sqlite.reader.stored":
            monkeypatch.undo()
            made(shop, schemas, other).initialize(None)

    monkeypatch.setattr(capture_readers, "failpoint", begin_other)
    with pytest.raises(NeedsUserError, match="RPL-3514"):
        made(shop, schemas, first).initialize(None)
    with pytest.raises(NeedsUserError, match="RPL-3514"):
        made(shop, schemas, first).initialize(None)
    made(shop, schemas, other).initialize(SqliteOffset(0))


def test_a_reader_that_an_older_version_noted_belongs_to_the_state_that_has_an_offset(
    shop: SqliteSystem, schemas: dict[TableId, TableSchema]
) -> None:
    older = TestSourceContext("shop")
    made(shop, schemas, older).initialize(None)
    older.state.clear()
    shop.database.execute("DELETE FROM _replicator_facts WHERE name GLOB 'owner *' OR name GLOB 'keep *'")
    assert "whose state is elsewhere" in remove(shop, [stored(TestSourceContext("shop"))])
    made(shop, schemas, older).initialize(SqliteOffset(0))
    assert "whose state is elsewhere" in remove(shop, [stored(TestSourceContext("shop"), SqliteOffset(0))])
    assert remove(shop, [stored(older, SqliteOffset(0))]) == "; "
    with pytest.raises(HistoryLostError, match="RPL-3507"):
        made(shop, schemas, older).initialize(SqliteOffset(5))
