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


class TestMemoryTarget(TargetConformance):
    random_histories = 200
    refuses_foreign_tables = False  # several pipelines of a test may write to one store

    @pytest.fixture
    def system(self) -> MemorySystem:
        return MemorySystem()
