"""Copies compare all captured tables when a schema has changed, not each time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from replicator_sdk import EventReaderDefinition, TableId, TableSchema
from replicator_sdk.testing.contexts import CollectingEmitter, TestSourceContext
from replicator_source_sqlite.capture import ddl_detection
from replicator_source_sqlite.capture.versions import Version
from tests.plugins.sources.sqlite.source_system import SqliteSystem

NAMES = ("a", "b", "c", 'd "quoted"', "é")


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[SqliteSystem]:
    made = SqliteSystem(tmp_path / "shop.db")
    for name in NAMES:
        quoted = name.replace('"', '""')
        made.database.execute(f'CREATE TABLE "{quoted}" (id INTEGER PRIMARY KEY, v TEXT)')
    reader = made.source.create_reader(EventReaderDefinition({}), TestSourceContext(), CollectingEmitter())
    reader.initialize(None)
    reader.capture([schema(made, name) for name in NAMES])
    reader.close()
    yield made
    made.close()


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables that are compared with their versions."""
    names: list[str] = []
    drift = ddl_detection._drift

    def noted(database: object, version: Version) -> object:
        names.append(version.schema.table.table)
        return drift(database, version)  # type: ignore[arg-type]

    monkeypatch.setattr(ddl_detection, "_drift", noted)
    return names


def schema(shop: SqliteSystem, name: str) -> TableSchema:
    with shop.source.create_table_registry() as registry:
        return registry.describe_table(TableId("main", name))


def copy(shop: SqliteSystem, name: str) -> tuple[str, ...]:
    """Open a copy by a reader of its own, as the engine does; its columns."""
    reader = shop.source.create_snapshot_reader(EventReaderDefinition({}), TestSourceContext())
    assert reader is not None
    with reader.open(schema(shop, name)) as snapshot:
        return tuple(snapshot.schema.names)


def test_a_copy_after_the_first_compares_its_own_table_only(shop: SqliteSystem, compared: list[str]) -> None:
    copy(shop, "a")
    assert set(compared) == set(NAMES)
    for name in NAMES[1:]:
        compared.clear()
        copy(shop, name)
        assert compared == [name]


def test_a_changed_schema_is_logged_before_the_next_copy(shop: SqliteSystem, compared: list[str]) -> None:
    copy(shop, "a")
    shop.database.execute("ALTER TABLE b ADD COLUMN w TEXT")
    compared.clear()
    assert copy(shop, "b") == ("id", "v", "w")
    assert set(compared) == set(NAMES)


def test_a_database_put_in_the_place_of_another_is_compared(
    shop: SqliteSystem, compared: list[str], tmp_path: Path
) -> None:
    """Its counter of schema changes may be the same."""
    copy(shop, "a")
    path = shop.path
    other = path.with_name("restored.db")
    shop.database.execute("VACUUM INTO ?", (str(other),))
    shop.database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    other.replace(path)
    compared.clear()
    copy(shop, "a")
    assert set(compared) == set(NAMES)
