"""Claims about snapshots: every value arrives, once, also when a load is interrupted or overlaps the log."""

from __future__ import annotations

import pytest

from replicator_sdk.errors import FencedError, RetryableError
from replicator_sdk.offset import Position
from replicator_sdk.target import BatchConsumer
from replicator_sdk.testing.failures.explained import at_step, comparing
from replicator_sdk.testing.faults import FailAfterWrite, Fault, FaultScript, FaultyTarget, Reject
from replicator_sdk.testing.histories.history import History, Step, load_case, load_cases
from replicator_sdk.testing.histories.reference import ReferenceTable
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from replicator_sdk.testing.in_memory.source import MemoryChunkReader
from replicator_sdk.testing.target_claims.target_system import TargetClaims, TargetSystem, consumer
from replicator_sdk.testing.target_script import apply, load, load_whole, snapshot_chunks

CASES = load_cases()


class _SourceIsAwayError(Exception):
    """What a copy fails with that has read all rows."""


class SnapshotClaims(TargetClaims):
    """Rows that are loaded are the rows that were read."""

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
        table, chunks, position = _large_table(system), snapshot_chunks(4), Position(MemoryOffset(7))
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
        with comparing("how many rows the chunks had and the progress"):
            assert done.snapshot_rows == len(table.rows)
        self._compare(system, {table.schema.table: table})

    def test_a_finished_snapshot_is_not_loaded_again(self, system: TargetSystem) -> None:
        """The plan of a finished snapshot, begun again by another consumer, has all its chunks, and no row comes twice."""
        table, position = _large_table(system), Position(MemoryOffset(7))
        with consumer(system) as first:
            load(self._loader(first), table, "plan", position)
        with consumer(system) as second:
            loader = self._loader(second)
            at_step("begin the finished snapshot again")
            with comparing("the chunks of a finished plan and all of them"):
                assert loader.begin_snapshot(table.schema, "plan", position) == frozenset({0, 1, 2})
            load(loader, table, "plan", position)
            assert self._progress(second, table).snapshot_chunks is None
        self._compare(system, {table.schema.table: table})

    def test_another_plan_starts_from_scratch(self, system: TargetSystem) -> None:
        """A snapshot of another plan removes what was there, so that rows deleted meanwhile do not stay."""
        table = _large_table(system)
        fewer = ReferenceTable(table.schema, table.rows[::2])
        with consumer(system) as only:
            load(self._loader(only), table, "first", Position(MemoryOffset(1)))
            load(self._loader(only), fewer, "second", Position(MemoryOffset(2)))
        self._compare(system, {table.schema.table: fewer})

    def test_a_plan_without_chunks_empties_the_table(self, system: TargetSystem) -> None:
        """So a source without snapshots begins again: from a place of its log that may be before the table's position."""
        table, position = _large_table(system), Position(MemoryOffset(2))
        with consumer(system) as first:
            load(self._loader(first), table, "first", Position(MemoryOffset(9)))
        with consumer(system, epoch=2) as second:
            loader = self._loader(second)
            assert loader.begin_snapshot(table.schema, "second", position) == frozenset()
            loader.finish_snapshot(table.schema, "second", position)
            done = self._progress(second, table)
        assert (done.snapshot_chunks, done.position) == (None, position)
        self._compare(system, {table.schema.table: ReferenceTable(table.schema, [])})

    def test_a_table_loaded_at_once_is_a_finished_snapshot(self, system: TargetSystem) -> None:
        """`load_whole` replaces what was there, leaves what a plan of many steps leaves, and says so before the table is whole."""
        table = _large_table(system)
        fewer = ReferenceTable(table.schema, table.rows[::2])
        chunks, ends = snapshot_chunks(2), list[str]()
        with consumer(system) as first:
            load_whole(self._loader(first), table, "first", Position(MemoryOffset(1)))
        with consumer(system) as second:

            def all_read() -> None:
                found = second.progress(table.schema.table) if isinstance(second, BatchConsumer) else None
                is_whole = found is not None and found.snapshot_id == "second" and found.snapshot_chunks is None
                ends.append("whole" if is_whole else "not whole")

            load_whole(self._loader(second), fewer, "second", Position(MemoryOffset(2)), all_read)
            assert ends == ["not whole"]
            done = self._progress(second, table)
            assert (done.snapshot_chunks, done.snapshot_id, done.position) == (
                None,
                "second",
                Position(MemoryOffset(2)),
            )
            with comparing("how many rows the chunks had and the progress"):
                assert done.snapshot_rows == len(fewer.rows)
        with consumer(system) as third:
            held = self._loader(third).begin_snapshot(table.schema, "second", Position(MemoryOffset(2)))
            assert held == {chunk.index for chunk in chunks}
        self._compare(system, {table.schema.table: fewer})

    def test_a_copy_beside_a_table_is_seen_whole_or_not_at_all(self, system: TargetSystem) -> None:
        """Where the target says that it copies beside tables: before its end, and after a failure, readers see the rows of before."""
        if not system.target.copies_beside:
            pytest.skip("the target does not copy beside tables (copies_beside)")
        table = _large_table(system)
        fewer = ReferenceTable(table.schema, table.rows[::2])
        name = table.schema.table
        with consumer(system) as first:
            load_whole(self._loader(first), table, "first", Position(MemoryOffset(1)))
        with consumer(system, epoch=2) as second:

            def fails() -> None:
                self._compare(system, {name: table})
                raise _SourceIsAwayError

            with pytest.raises(_SourceIsAwayError):
                load_whole(self._loader(second), fewer, "second", Position(MemoryOffset(2)), fails)
            self._compare(system, {name: table})
            load_whole(
                self._loader(second),
                fewer,
                "third",
                Position(MemoryOffset(2)),
                lambda: self._compare(system, {name: table}),
            )
        self._compare(system, {name: fewer})

    def test_a_superseded_run_replaces_no_table(self, system: TargetSystem) -> None:
        """A newer run wrote the table while an older one read all rows of its copy: that copy is not seen."""
        if not system.target.copies_beside:
            pytest.skip("the target does not copy beside tables (copies_beside)")
        table = _large_table(system)
        fewer = ReferenceTable(table.schema, table.rows[::2])
        with consumer(system, epoch=2) as older, consumer(system, epoch=3) as newer:
            load_whole(self._loader(older), table, "first", Position(MemoryOffset(1)))

            def taken_over() -> None:
                load_whole(self._loader(newer), table, "newer", Position(MemoryOffset(3)))

            at_step("replace the table by an older run")
            with pytest.raises((FencedError, RetryableError)):
                load_whole(self._loader(older), fewer, "older", Position(MemoryOffset(2)), taken_over)
            assert self._progress(newer, table).snapshot_id == "newer"
        self._compare(system, {table.schema.table: table})

    @pytest.mark.parametrize("fault", [Reject(), FailAfterWrite()], ids=["rejected", "answer lost"])
    def test_a_failed_load_at_once_can_be_repeated(self, system: TargetSystem, fault: Fault) -> None:
        """After a failure, before or after its work, the steps of the same plan load each row once."""
        table, faults = _large_table(system), FaultScript()
        with consumer(system, FaultyTarget(system.target, faults)) as failing:
            faults.on("load_whole", fault)
            with pytest.raises(RetryableError):
                load_whole(self._loader(failing), table, "plan", Position(MemoryOffset(1)))
        with consumer(system) as again:
            load(self._loader(again), table, "plan", Position(MemoryOffset(1)), chunks=2)
        self._compare(system, {table.schema.table: table})

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
        chunks = snapshot_chunks(2)
        with consumer(system) as only:
            loader, schema = self._loader(only), early[table].schema
            loader.begin_snapshot(schema, "plan", Position(MemoryOffset(1)))
            loader.load_chunks(schema, "plan", chunks[:1], MemoryChunkReader(schema, early[table].rows))
            loader.load_chunks(schema, "plan", chunks[1:], MemoryChunkReader(schema, late[table].rows))
            loader.finish_snapshot(schema, "plan", Position(MemoryOffset(1)))
            flush = overlapping.flush(case.transactions[1:])
            apply(only, flush)
        self._compare(system, flush.tables)


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
