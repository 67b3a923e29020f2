"""The memory source passes the kit, so that tests of the runtime can trust it."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import pytest

from replicator_sdk import ChangeBatch, Column, DDLEvent, TableId, TableSchema
from replicator_sdk.datatype import INT64
from replicator_sdk.source import EventReaderDefinition
from replicator_sdk.testing.contexts import CollectingEmitter, TestSourceContext
from replicator_sdk.testing.histories.history import Step
from replicator_sdk.testing.histories.values import Row
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from replicator_sdk.testing.in_memory.source import MemoryDatabase, MemorySource, MemorySourceConfig
from replicator_sdk.testing.source_suite import SourceConformance, SourceSystem


class MemorySystem(SourceSystem):
    def __init__(self) -> None:
        MemoryDatabase.forget("conformance")
        self.source = MemorySource(MemorySourceConfig(database="conformance"))
        self.database = MemoryDatabase.of("conformance")

    def create_table(self, name: str, schema: TableSchema) -> TableId:
        return self.database.create(name, schema).table

    def execute(self, steps: Sequence[tuple[Step, TableSchema]]) -> None:
        self.database.execute(*(Step(step.kind, schema.table.table, step.facts) for step, schema in steps))

    def read_table(self, schema: TableSchema) -> list[Row]:
        return self.database.rows(schema.table.table)

    def rest(self) -> None:
        """Give the reader time to notice that nothing comes; sources that the kit is to catch emit an offset then."""
        time.sleep(0.2)

    def lose_history(self) -> None:
        self.database.forget_until(MemoryOffset(len(self.database.log)))


class TestMemorySource(SourceConformance):
    random_histories = 100

    @pytest.fixture
    def system(self) -> MemorySystem:
        return MemorySystem()


def test_a_selected_column_is_followed_through_a_swap_of_names() -> None:
    """Its old name then belongs to a column that is not selected."""
    MemoryDatabase.forget("swap")
    database, source = MemoryDatabase.of("swap"), MemorySource(MemorySourceConfig(database="swap"))
    whole = database.create("t", TableSchema(TableId("memory", "t"), tuple(Column(n, INT64) for n in "kab"), ("k",)))
    for name, to in (("a", "x"), ("b", "a"), ("x", "b")):
        database.execute(Step("rename_column", "t", {"name": name, "to": to}))
    database.execute(Step("insert", "t", {"rows": [{"k": 1, "a": 10, "b": 20}]}))
    narrow = whole.select({"k", "a"})
    definition = EventReaderDefinition({whole.table: narrow}, narrowed=frozenset({whole.table}))
    emitter = CollectingEmitter()
    reader = source.create_reader(definition, TestSourceContext(), emitter)
    reader.initialize(MemoryOffset(0))
    thread = threading.Thread(target=reader.run)
    thread.start()
    assert emitter.wait_for(source.latest_offset(), 120)
    reader.close()
    thread.join()
    events = [event for window in emitter.windows for event in window.events]
    (batch,) = (event for event in events if isinstance(event, ChangeBatch))
    assert batch.row.to_pylist() == [{"k": 1, "b": 20}]
    alters = [alter for event in events if isinstance(event, DDLEvent) for alter in event.alters]
    renames = [(a.previous.name, a.column.name) for a in alters if a.previous and a.column]
    assert renames == [("a", "x"), ("x", "b")]
