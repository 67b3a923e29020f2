"""Claims about histories of changes: however they are cut or repeated, the tables end as the reference has them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replicator_sdk.batch import TableChanges
from replicator_sdk.errors import RetryableError
from replicator_sdk.event import DDLEvent
from replicator_sdk.offset import Position
from replicator_sdk.target import BatchConsumer
from replicator_sdk.testing.failures.smallest import check_history
from replicator_sdk.testing.faults import FailAfterWrite, Fault, FaultScript, FaultyTarget, Reject
from replicator_sdk.testing.histories.history import History, load_case, load_cases
from replicator_sdk.testing.histories.random_history import random_history
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from replicator_sdk.testing.target_claims.target_system import TargetClaims, TargetSystem, consumer
from replicator_sdk.testing.target_script import Flush, apply, cut_transactions

CASES = load_cases()
CUTS = ("all at once", "first alone", "one by one")


class HistoryClaims(TargetClaims):
    """What is applied is what the history makes."""

    cuts: ClassVar[tuple[str, ...]] = CUTS
    """In which ways histories are cut into flushes; leave some out when a flush takes seconds."""

    random_histories: ClassVar[int] = 20
    """How many random histories are tried."""

    @pytest.mark.parametrize("cut", CUTS)
    @pytest.mark.parametrize("case", CASES, ids=str)
    def test_what_is_there_is_what_the_history_makes(self, system: TargetSystem, case: History, cut: str) -> None:
        """However a history is cut, the tables end as the reference has them, and a replay of it changes nothing."""
        self.require(case)
        if cut not in self.cuts:
            pytest.skip("this way of cutting is left out here")
        check_history(case, lambda history, prefix: self._check_cut(system, history, cut, prefix))

    def _check_cut(self, system: TargetSystem, case: History, cut: str, prefix: str) -> None:
        builder, flushes = self._builder(system, case, prefix=prefix), []
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

    def _any_history(self) -> st.SearchStrategy[History]:
        return random_history(
            keyless=self.supports_keyless, ddl=self.supports_add_column, unchanged=self.supports_unchanged
        )


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
