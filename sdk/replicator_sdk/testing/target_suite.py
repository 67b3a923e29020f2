"""The target's half of the kit: subclass `TargetConformance`, give the fixture `system`, run pytest.

class TestMyTarget(TargetConformance):
supports_rename_column = False

@pytest.fixture
def system(self, tmp_path):
return MySystem(tmp_path)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replicator_sdk.batch import TableChanges
from replicator_sdk.discovery.assessment import Severity
from replicator_sdk.errors import FencedError, NeedsUserError, RetryableError
from replicator_sdk.event import DDLEvent
from replicator_sdk.offset import Position
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.snapshot import SnapshotChunk
from replicator_sdk.target import BatchConsumer, DeltaTarget, EventConsumer, SnapshotLoader, TableProgress
from replicator_sdk.testing.capabilities import Capabilities
from replicator_sdk.testing.contexts import CollectingConfigurer, TestTargetContext
from replicator_sdk.testing.faults import FailAfterWrite, Fault, FaultScript, FaultyTarget, Reject
from replicator_sdk.testing.histories.history import History, Step, load_case, load_cases
from replicator_sdk.testing.histories.random_history import random_history
from replicator_sdk.testing.histories.reference import ReferenceTable
from replicator_sdk.testing.histories.values import Row, difference
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from replicator_sdk.testing.in_memory.source import MemoryChunkReader
from replicator_sdk.testing.target_script import Flush, ScriptBuilder, apply, cut_transactions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["CUTS", "Row", "TargetConformance", "TargetSystem"]

CASES = load_cases()
CUTS = ("all at once", "first alone", "one by one")


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


class TargetConformance(Capabilities):
    """What every target promises. Each test's docstring is the promise."""

    cuts: ClassVar[tuple[str, ...]] = CUTS
    """In which ways histories are cut into flushes; leave some out when a flush takes seconds."""

    random_histories: ClassVar[int] = 20
    """How many random histories are tried."""

    is_fenced: ClassVar[bool] = True
    """A lower epoch cannot write any more."""

    refuses_foreign_tables: ClassVar[bool] = True
    """A table that another replicator writes is refused."""

    @pytest.fixture
    def system(self) -> TargetSystem:
        """The target under test; override it."""
        raise NotImplementedError("a subclass of TargetConformance must define the fixture `system`")

    @pytest.mark.parametrize("cut", CUTS)
    @pytest.mark.parametrize("case", CASES, ids=str)
    def test_what_is_there_is_what_the_history_makes(self, system: TargetSystem, case: History, cut: str) -> None:
        """However a history is cut, the tables end as the reference has them, and a replay of it changes nothing."""
        self.require(case)
        if cut not in self.cuts:
            pytest.skip("this way of cutting is left out here")
        builder, flushes = self._builder(system, case), []
        with consumer(system) as first:
            self._create(first, builder)
            for group in cut_transactions(case, cut):
                flushes.append(builder.flush(group))
                apply(first, flushes[-1])
        self._compare(system, flushes[-1].tables)
        with consumer(system) as again:
            self._create(again, builder)
            for flush in flushes:
                apply(again, flush)
        self._compare(system, flushes[-1].tables)

    @pytest.mark.parametrize("case", [c for c in CASES if any(s.is_ddl for t in c.transactions for s in t)], ids=str)
    def test_a_ddl_event_that_comes_again_changes_nothing(self, system: TargetSystem, case: History) -> None:
        """At once, from another consumer, and after later rows: a position that the table has is not applied again."""
        self._need_batches(system)
        self.require(case)
        builder, changes = self._builder(system, case), list[DDLEvent]()
        with consumer(system) as first:
            self._create(first, builder)
        for group in cut_transactions(case, "one by one"):
            flush = builder.flush(group)
            for item in flush.items:
                piece = replace(flush, items=(item,))
                changes += [item] if isinstance(item, DDLEvent) else []
                with consumer(system) as one, consumer(system) as other:
                    for each in (one, one, other) if isinstance(item, DDLEvent) else (one,):
                        apply(each, piece)
            self._compare(system, flush.tables)
            with consumer(system) as again:
                for event in changes:
                    apply(again, replace(flush, items=(event,)))
            self._compare(system, flush.tables)

    @pytest.mark.parametrize("case", [c for c in CASES if c.name.startswith(("key", "seed"))], ids=str)
    def test_whole_rows_before_a_change_are_as_good_as_keys(self, system: TargetSystem, case: History) -> None:
        """A source that emits whole rows before each change leads to the same tables."""
        self.require(case)
        builder = self._builder(system, case, full_before=True)
        with consumer(system) as only:
            self._create(only, builder)
            last = self._apply_all(only, builder, cut_transactions(case, "first alone"))
        self._compare(system, last.tables)

    def test_random_histories_arrive(self, system: TargetSystem) -> None:
        """Any history, cut anywhere, with any flush applied twice by another consumer, ends as the reference has it."""
        count = iter(range(1_000_000))

        @settings(
            max_examples=self.random_histories, deadline=None, suppress_health_check=list(HealthCheck), database=None
        )
        @given(self._any_history(), st.data())
        def check(history: History, data: st.DataObject) -> None:
            builder = self._builder(system, history, prefix=f"r{next(count)}_", full_before=data.draw(st.booleans()))
            with consumer(system) as first:
                self._create(first, builder)
            rest, flushes = list(history.transactions), [builder.flush([])]
            while rest:
                size = data.draw(st.integers(1, len(rest)))
                flushes.append(builder.flush(rest[:size]))
                rest = rest[size:]
                for _ in range(data.draw(st.integers(1, 2))):
                    with consumer(system) as one:
                        apply(one, flushes[-1])
            self._compare(system, flushes[-1].tables)

        check()

    @pytest.mark.parametrize("fault", [Reject(), FailAfterWrite()], ids=["rejected", "answer lost"])
    @pytest.mark.parametrize("name", ["seed_with_primary_key", "seed_without_primary_key", "key_cycle"])
    def test_a_failed_apply_can_be_repeated(self, system: TargetSystem, name: str, fault: Fault) -> None:
        """After an apply that failed, before or after its work, the same flush once more makes the tables right."""
        case = load_case(name)
        self.require(case)
        builder, faults, flushes = self._builder(system, case), FaultScript(), []
        faulty_target = FaultyTarget(system.target, faults)
        with consumer(system) as first:
            self._create(first, builder)
        for group in cut_transactions(case, "first alone"):
            flushes.append(builder.flush(group))
            with consumer(system, faulty_target) as failing:
                faults.on("apply_batch" if isinstance(failing, BatchConsumer) else "flush", fault)
                with pytest.raises(RetryableError):
                    apply(failing, flushes[-1])
            with consumer(system) as again:
                apply(again, flushes[-1])
        assert faults.exhausted
        self._compare(system, flushes[-1].tables)

    def test_overlap_is_applied_as_upserts(self, system: TargetSystem) -> None:
        """Changes whose effect is in the table already, marked as overlap, lead to the same rows and no double ones."""
        self._need_batches(system)
        case = load_case("seed_with_primary_key")
        builder, later = self._builder(system, case), self._builder(system, case, overlap=True)
        with consumer(system) as only:
            self._create(only, builder)
            apply(only, builder.flush(case.transactions))
            flush = later.flush(case.transactions)
            apply(only, _moved(flush, 100))
        self._compare(system, flush.tables)

    def test_a_lower_epoch_is_fenced(self, system: TargetSystem) -> None:
        """A writer of a lower epoch changes nothing any more and learns so."""
        self._need_batches(system)
        if not self.is_fenced:
            pytest.skip("the target does not fence")
        case = load_case("seed_transactions")
        newer, older = self._builder(system, case, epoch=2), self._builder(system, case, epoch=1)
        with consumer(system, epoch=2) as winner:
            self._create(winner, newer)
            flush = newer.flush(case.transactions[:1])
            apply(winner, flush)
        with consumer(system, epoch=1) as zombie:
            with pytest.raises(FencedError):
                apply(zombie, older.flush(case.transactions))
            self._compare(system, flush.tables)
            (schema,) = older.schemas
            if isinstance(zombie, SnapshotLoader):
                with pytest.raises(FencedError):
                    zombie.begin_snapshot(schema, "zombie", Position(MemoryOffset(9)))
            self._compare(system, flush.tables)

    def test_a_table_of_another_replicator_is_refused(self, system: TargetSystem) -> None:
        """A replicator neither takes the progress of another one's table for its own nor changes the table."""
        self._need_batches(system)
        if not self.refuses_foreign_tables:
            pytest.skip("the target does not store which replicator writes a table")
        case = load_case("seed_transactions")
        own, foreign = self._builder(system, case), self._builder(system, case, epoch=2)
        with consumer(system) as owner:
            self._create(owner, own)
            flush = own.flush(case.transactions[:1])
            apply(owner, flush)
        (schema,) = own.schemas
        with consumer(system, epoch=2, name="another") as other:
            assert isinstance(other, BatchConsumer)
            with pytest.raises(NeedsUserError):
                other.progress(schema.table)
            with pytest.raises(NeedsUserError):
                apply(other, foreign.flush(case.transactions))
            if isinstance(other, SnapshotLoader):
                with pytest.raises(NeedsUserError):
                    other.begin_snapshot(schema, "another", Position(MemoryOffset(9)))
        self._compare(system, flush.tables)

    def test_progress_is_kept_with_the_data(self, system: TargetSystem) -> None:
        """What a table's last commit says of itself is read back by another consumer, exactly."""
        self._need_batches(system)
        case = load_case("several_tables_in_one_transaction")
        builder = self._builder(system, case)
        with consumer(system) as writer:
            assert isinstance(writer, BatchConsumer)
            assert writer.progress(TableId("conformance", "never written")) is None
            self._create(writer, builder)
            for group in cut_transactions(case, "one by one"):
                flush = builder.flush(group)
                apply(writer, flush)
                with consumer(system) as reader:
                    assert isinstance(reader, BatchConsumer)
                    for item in flush.items:
                        assert isinstance(item, TableChanges)
                        assert reader.progress(item.table) == TableProgress.of(item.identity)

    def test_tables_are_applied_side_by_side(self, system: TargetSystem) -> None:
        """Batches of different tables may be applied by several threads at once."""
        self._need_batches(system)
        case = load_case("seed_with_primary_key")
        builders = [self._builder(system, case, prefix=f"p{i}_") for i in range(4)]
        with consumer(system) as shared, ThreadPoolExecutor(4) as threads:
            for builder in builders:
                self._create(shared, builder)
            lasts = list(
                threads.map(
                    lambda builder: self._apply_all(shared, builder, cut_transactions(case, "first alone")), builders
                )
            )
        for last in lasts:
            self._compare(system, last.tables)

    @pytest.mark.parametrize("case", [c for c in CASES if c.name.startswith(("types_", "tricky", "empty"))], ids=str)
    def test_snapshots_load_every_value(self, system: TargetSystem, case: History) -> None:
        """Rows loaded by a snapshot are the rows that were read, value by value; later changes find them."""
        self.require(case)
        builder = self._builder(system, case)
        flush = builder.flush(case.transactions[:1])
        with consumer(system) as only:
            loader = self._loader(only)
            for table in flush.tables.values():
                load(loader, table, "plan", Position(MemoryOffset(1)))
            self._compare(system, flush.tables)
            flush = builder.flush(case.transactions[1:])
            apply(only, flush)
        self._compare(system, flush.tables)

    def test_an_interrupted_snapshot_goes_on(self, system: TargetSystem) -> None:
        """Chunks that are in stay in and are not loaded twice, by any later consumer; then the table is at its position."""
        table, chunks, position = _large_table(system), _chunks(4), Position(MemoryOffset(7))
        read = MemoryChunkReader(table.schema, table.rows)
        with consumer(system) as first:
            loader = self._loader(first)
            assert loader.begin_snapshot(table.schema, "plan", position) == frozenset()
            assert loader.load_chunks(table.schema, "plan", chunks[:2], read) > 0
            assert self._progress(first, table).snapshot_chunks == frozenset({0, 1})
        with consumer(system) as second:
            loader = self._loader(second)
            assert loader.begin_snapshot(table.schema, "plan", position) == frozenset({0, 1})
            assert loader.load_chunks(table.schema, "plan", chunks[:2], read) == 0
            assert loader.load_chunks(table.schema, "plan", chunks, read) > 0
            loader.finish_snapshot(table.schema, "plan", position)
            loader.finish_snapshot(table.schema, "plan", position)
            done = self._progress(second, table)
        assert done.snapshot_chunks is None
        assert done.position == position
        self._compare(system, {table.schema.table: table})

    def test_another_plan_starts_from_scratch(self, system: TargetSystem) -> None:
        """A snapshot of another plan removes what was there, so that rows deleted meanwhile do not stay."""
        table = _large_table(system)
        fewer = ReferenceTable(table.schema, table.rows[::2])
        with consumer(system) as only:
            load(self._loader(only), table, "first", Position(MemoryOffset(1)))
            load(self._loader(only), fewer, "second", Position(MemoryOffset(2)))
        self._compare(system, {table.schema.table: fewer})

    @pytest.mark.parametrize("fault", [Reject(), FailAfterWrite()], ids=["rejected", "answer lost"])
    @pytest.mark.parametrize("operation", ["begin_snapshot", "load_chunks", "finish_snapshot"])
    def test_a_failed_snapshot_step_can_be_repeated(self, system: TargetSystem, operation: str, fault: Fault) -> None:
        """After a step that failed, before or after its work, beginning again under the same plan loads each row once."""
        table, faults = _large_table(system), FaultScript()
        with consumer(system, FaultyTarget(system.target, faults)) as failing:
            loader = self._loader(failing)
            faults.on(operation, fault)
            with pytest.raises(RetryableError):
                load(loader, table, "plan", Position(MemoryOffset(1)))
        with consumer(system) as again:
            load(self._loader(again), table, "plan", Position(MemoryOffset(1)))
        self._compare(system, {table.schema.table: table})

    def test_snapshot_and_log_overlap(self, system: TargetSystem) -> None:
        """Chunks read at different positions, corrected by the log from the earliest on, make the table of the end."""
        case = _shifting_history()
        builder, overlapping = self._builder(system, case), self._builder(system, case, overlap=True)
        early, late = (builder.flush(group).tables for group in (case.transactions[:1], case.transactions[1:2]))
        overlapping.flush(case.transactions[:1])
        (table,) = early
        chunks = _chunks(2)
        with consumer(system) as only:
            loader, schema = self._loader(only), early[table].schema
            loader.begin_snapshot(schema, "plan", Position(MemoryOffset(1)))
            loader.load_chunks(schema, "plan", chunks[:1], MemoryChunkReader(schema, early[table].rows))
            loader.load_chunks(schema, "plan", chunks[1:], MemoryChunkReader(schema, late[table].rows))
            loader.finish_snapshot(schema, "plan", Position(MemoryOffset(1)))
            flush = overlapping.flush(case.transactions[1:])
            apply(only, flush)
        self._compare(system, flush.tables)

    def test_a_healthy_target_is_assessed_as_such(self, system: TargetSystem) -> None:
        """The assessor finds no error in the target the tests run on, and says how every column arrives."""
        system.target.configure(CollectingConfigurer())
        schema = load_case("seed_transactions").schemas(system.table_id)["customers"]
        with system.target.create_table_assessor() as assessor:
            assert [f for f in assessor.assess().findings if f.severity is Severity.ERROR] == []
            assert [f for f in assessor.assess_table(schema).findings if f.severity is Severity.ERROR] == []

    def test_stop_may_come_twice(self, system: TargetSystem) -> None:
        """A consumer may be stopped before anything happened, and again."""
        unused = system.target.create_consumer(_context(system, 1))
        unused.start()
        unused.stop()
        unused.stop()

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

    def _any_history(self) -> st.SearchStrategy[History]:
        return random_history(
            keyless=self.supports_keyless, ddl=self.supports_add_column, unchanged=self.supports_unchanged
        )

    def _need_batches(self, system: TargetSystem) -> None:
        with consumer(system) as one:
            if not isinstance(one, BatchConsumer):
                pytest.skip("the target takes event by event")

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
            problem = difference(table.schema, table.rows, system.read_table(table.schema))
            assert not problem, problem


@contextmanager
def consumer(
    system: TargetSystem, target: DeltaTarget | None = None, *, epoch: int = 1, name: str = "conformance"
) -> Iterator[EventConsumer]:
    """A started consumer of the replicator `name`; it is stopped afterwards."""
    made = (target or system.target).create_consumer(_context(system, epoch, name))
    made.start()
    try:
        yield made
    finally:
        made.stop()


def load(loader: SnapshotLoader, table: ReferenceTable, plan: str, position: Position) -> None:
    """Load a whole table in three chunks, those that are missing."""
    chunks = _chunks(3)
    there = loader.begin_snapshot(table.schema, plan, position)
    missing = [chunk for chunk in chunks if chunk.index not in there]
    if missing:
        loader.load_chunks(table.schema, plan, missing, MemoryChunkReader(table.schema, table.rows))
    loader.finish_snapshot(table.schema, plan, position)


def _context(system: TargetSystem, epoch: int, name: str = "conformance") -> TestTargetContext:
    return TestTargetContext(MemoryOffset.from_fields, epoch=epoch, spark=system.spark, name=name)


def _chunks(count: int) -> list[SnapshotChunk]:
    return [SnapshotChunk(i, {"rest": i, "of": count}) for i in range(count)]


def _large_table(system: TargetSystem) -> ReferenceTable:
    schema = load_case("seed_transactions").schemas(system.table_id)["customers"]
    return ReferenceTable(schema, [{"id": i, "name": None if i % 7 == 0 else f"n{i}"} for i in range(500)])


def _shifting_history() -> History:
    """Rows that come, go and move in the second and third transaction."""

    def delete(key: int) -> Step:
        return Step("delete", "customers", {"where": {"id": key}})

    def move(key: int, to: int) -> Step:
        return Step("update", "customers", {"where": {"id": key}, "set": {"id": to}})

    def insert(*keys: int) -> Step:
        return Step("insert", "customers", {"rows": [{"id": key, "name": f"n{key}"} for key in keys]})

    second = [step for key in range(0, 20, 4) for step in (delete(key), move(key + 1, key + 101), insert(key + 201))]
    third = [step for key in range(0, 20, 8) for step in (insert(key), move(key + 101, key + 1), delete(key + 201))]
    tables = load_case("seed_transactions").tables
    return History("shifting", "", frozenset(), tables, ((insert(*range(20)),), tuple(second), tuple(third)))


def _moved(flush: Flush, by: int) -> Flush:
    """The same changes at later positions."""

    def later(position: Position | None) -> Position:
        assert position is not None
        assert isinstance(position.offset, MemoryOffset)
        return Position(MemoryOffset(position.offset.transaction + by), position.events_after)

    items: list[TableChanges | DDLEvent] = []
    for item in flush.items:
        if isinstance(item, DDLEvent):
            items.append(replace(item, position=later(item.position)))
        else:
            item.identity = replace(item.identity, position=later(item.identity.position))
            items.append(item)
    return replace(flush, items=tuple(items))
