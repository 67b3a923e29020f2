"""The memory source passes the kit, so that tests of the runtime can trust it."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from replicator_sdk import TableId, TableSchema
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
