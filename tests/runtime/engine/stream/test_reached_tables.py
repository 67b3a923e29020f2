"""A source learns how far a table is at the target from the run; the target is asked by the thread that applies only."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from replicator_source_sqlite.plugin import SqliteSource
from replicator_source_sqlite.streaming.reader import SqliteReader
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.apply.test_rejoining import at_work, count
from tests.runtime.engine.test_run import Shop, _wait, fill, shop

if TYPE_CHECKING:
    import pytest

    from replicator_sdk import EventReader, EventReaderDefinition, Offset, TableId

__all__ = ["shop"]


def test_the_reader_asks_beside_applies_and_the_target_is_not_asked(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(shop)
    shop.run()
    definitions: list[EventReaderDefinition] = []
    found: list[Offset | None] = []
    asked_by: set[str] = set()
    create, emit = SqliteSource.create_reader, SqliteReader._emit_changes

    def create_reader(self: SqliteSource, definition: EventReaderDefinition, *more: Any) -> EventReader:
        definitions.append(definition)
        return create(self, definition, *more)

    def ask(self: SqliteReader, *more: Any) -> None:
        (table,) = (table for table in definitions[-1].tables if table.table == "notes")
        found.append(definitions[-1].reached(table))
        emit(self, *more)

    def fault(step: str, _: TableId) -> None:
        if step == "progress":
            asked_by.add(threading.current_thread().name)

    monkeypatch.setattr(SqliteSource, "create_reader", create_reader)
    monkeypatch.setattr(SqliteReader, "_emit_changes", ask)
    in_memory_target.STORAGE.fault = fault
    with at_work(shop):
        for number in range(3):
            shop.sql(f"INSERT INTO notes VALUES ('more {number}')")
            _wait(lambda wanted=21 + number: count("notes") == wanted)
    assert "reader" not in asked_by
    assert all(offset is not None for offset in found)
    assert found[0] < found[1] < found[2]  # type: ignore[operator]
