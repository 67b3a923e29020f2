"""The memory target passes the kit, so that tests of the runtime can trust it."""

from __future__ import annotations

import pytest

from replicator_sdk import TableSchema
from replicator_sdk.testing.histories.values import Row
from replicator_sdk.testing.in_memory.target import MemoryStore, MemoryTarget, MemoryTargetConfig
from replicator_sdk.testing.target_suite import TargetConformance, TargetSystem


class MemorySystem(TargetSystem):
    def __init__(self) -> None:
        MemoryStore.forget("conformance")
        self.target = MemoryTarget(MemoryTargetConfig(store="conformance"))

    def read_table(self, schema: TableSchema) -> list[Row]:
        rows = MemoryStore.of("conformance").rows(schema.table)
        assert all(set(row) == set(schema.names) for row in rows)
        return rows

    def create_foreign_table(self, schema: TableSchema) -> None:
        MemoryStore.of("conformance").reference.create(schema)

    def has_database(self, name: str) -> bool:
        return name in MemoryStore.of("conformance").databases

    def create_foreign_database(self, name: str) -> None:
        MemoryStore.of("conformance").databases[name] = False


class TestMemoryTarget(TargetConformance):
    random_histories = 200
    interruptions = 15
    refuses_foreign_tables = False  # several pipelines of a test may write to one store
    test_a_table_that_no_replicator_wrote_is_refused = None  # type: ignore[assignment]  # nor does it keep apart who wrote what

    @pytest.fixture
    def system(self) -> MemorySystem:
        return MemorySystem()
