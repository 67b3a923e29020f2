"""The target under test, and what all claims about it share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

import pytest

from replicator_sdk.context import Metrics
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.target import BatchConsumer, DeltaTarget, EventConsumer, SnapshotLoader, TableProgress
from replicator_sdk.testing.capabilities import Capabilities
from replicator_sdk.testing.contexts import TestTargetContext
from replicator_sdk.testing.failures.explained import assert_same, comparing
from replicator_sdk.testing.histories.history import History, Step
from replicator_sdk.testing.histories.reference import ReferenceTable
from replicator_sdk.testing.histories.values import Row, difference
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from replicator_sdk.testing.target_script import Flush, ScriptBuilder, apply

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class TargetSystem(ABC):
    """A real target with a place that the tests may do as they like in. One for each test.

    Attributes:
        target: The target under test, writing to that place.
        spark: Gives a Spark session; None for targets that need none.
    """

    target: DeltaTarget
    spark: Callable[[], SparkSession] | None = None

    @abstractmethod
    def read_table(self, schema: TableSchema) -> list[Row]:
        """All rows of a table, in its columns, by a client that shares no code with the target.

        Columns the target adds for itself are left out; rows it only marks as deleted too.
        """

    def table_id(self, name: str) -> TableId:
        """The full name for a table of a history."""
        return TableId("conformance", name)

    def create_foreign_table(self, schema: TableSchema) -> None:  # noqa: ARG002 - for those that override it
        """Make a table with these columns where the target keeps `schema.table`, as another program would: without the target.

        It has no rows. Without it the kit cannot see whether the target takes such a table for its own.
        """
        pytest.skip("the system cannot make a table without the target")

    def database_name(self, name: str) -> str:
        """The name for a database that a test creates; it does not exist yet."""
        return name

    def has_database(self, name: str) -> bool:  # noqa: ARG002 - for those that override it
        """Whether the target has a place for the tables of the database `name`; asked without the target.

        Only targets that follow databases need it (`EventConsumer.follows_databases`).
        """
        pytest.skip("the system does not say which databases the target has")

    def create_foreign_database(self, name: str) -> None:  # noqa: ARG002 - for those that override it
        """Make an empty database, as another program would: without the target."""
        pytest.skip("the system cannot make a database without the target")


class TargetClaims(Capabilities):
    """The fixture and the steps of all claims."""

    is_fenced: ClassVar[bool] = True
    """A lower epoch cannot write any more."""

    refuses_foreign_tables: ClassVar[bool] = True
    """A table that another replicator writes is refused."""

    interruptions: ClassVar[int] = 40
    """At how many lines of the plugin a call is interrupted at most; fewer when a flush takes seconds, 0 for none."""

    @pytest.fixture
    def system(self) -> TargetSystem:
        """The target under test; override it."""
        raise NotImplementedError("a subclass of TargetConformance must define the fixture `system`")

    def _builder(
        self,
        system: TargetSystem,
        case: History,
        *,
        prefix: str = "",
        full_before: bool = False,
        epoch: int = 1,
        overlap: bool = False,
    ) -> ScriptBuilder:
        ids = {name: system.table_id(prefix + name) for name in case.tables}
        return ScriptBuilder(case, ids, full_before=full_before, epoch=epoch, overlap=overlap)

    def _apply_all(
        self, one: EventConsumer, builder: ScriptBuilder, groups: Sequence[Sequence[Sequence[Step]]]
    ) -> Flush:
        """Flush group after group; returns the last flush."""
        flushes = [builder.flush([])]
        for group in groups:
            flushes.append(builder.flush(group))
            apply(one, flushes[-1])
        return flushes[-1]

    def _create(self, one: EventConsumer, builder: ScriptBuilder) -> None:
        for event in builder.create():
            one.apply_ddl(event)

    def _need_batches(self, system: TargetSystem) -> None:
        with consumer(system) as one:
            if not isinstance(one, BatchConsumer):
                pytest.skip("the target takes event by event")

    def _need_fence(self) -> None:
        if not self.is_fenced:
            pytest.skip("the target does not fence")

    def _loader(self, one: EventConsumer) -> SnapshotLoader:
        if not isinstance(one, SnapshotLoader):
            pytest.skip("the target loads no snapshots in parallel")
        return one

    def _progress(self, one: EventConsumer, table: ReferenceTable) -> TableProgress:
        assert isinstance(one, BatchConsumer)
        found = one.progress(table.schema.table)
        assert found is not None
        return found

    def _compare(self, system: TargetSystem, tables: Mapping[TableId, ReferenceTable]) -> None:
        for table in tables.values():
            compared = f"the rows of {table.schema.table} in the reference and at the target"
            with comparing(compared):
                there = system.read_table(table.schema)
            assert_same(compared, difference(table.schema, table.rows, there))


@contextmanager
def consumer(
    system: TargetSystem,
    target: DeltaTarget | None = None,
    *,
    epoch: int = 1,
    name: str = "conformance",
    metrics: Metrics | None = None,
) -> Iterator[EventConsumer]:
    """A started consumer of the replicator `name`, which reports to `metrics`; it is stopped afterwards."""
    context = target_context(system, epoch, name)
    context.metrics = metrics or context.metrics
    made = (target or system.target).create_consumer(context)
    made.start()
    try:
        yield made
    finally:
        made.stop()


def target_context(system: TargetSystem, epoch: int, name: str = "conformance") -> TestTargetContext:
    """A context without a runtime."""
    return TestTargetContext(MemoryOffset.from_fields, epoch=epoch, spark=system.spark, name=name)
