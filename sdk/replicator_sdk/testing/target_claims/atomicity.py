"""Claims about what a call leaves when it ends in the middle: rows, structure and progress always fit together."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from replicator_sdk.event import DDLEvent
from replicator_sdk.offset import Position
from replicator_sdk.schema import TableId
from replicator_sdk.testing.failures.explained import at_step, comparing
from replicator_sdk.testing.failures.interruption import Place, interrupted_at, lines_of
from replicator_sdk.testing.histories.history import History, load_case
from replicator_sdk.testing.histories.reference import ReferenceTable
from replicator_sdk.testing.target_claims.target_system import TargetClaims, TargetSystem, consumer
from replicator_sdk.testing.target_script import Flush, apply

_CASES = ("seed_without_primary_key", "truncate_alone", "add_column")


class AtomicityClaims(TargetClaims):
    """Rows, structure and progress are in one commit."""

    @pytest.mark.parametrize("name", _CASES)
    def test_an_interrupted_call_leaves_rows_and_progress_that_fit(self, system: TargetSystem, name: str) -> None:
        """Interrupted at any line of the plugin, a table has the rows of the position that its progress says, and the
        same flush once more makes it right.
        """
        self._need_batches(system)
        case = load_case(name)
        self.require(case)
        places = self._places(system, case)
        for number in range(len(places)):
            if not places:
                break
            places = self._interrupt(system, case, places, f"i{number}_")

    def _places(self, system: TargetSystem, case: History) -> list[Place]:
        """The lines to interrupt at, evenly spread over those that a whole flush executes."""
        before, flush = self._prepared(system, case, "whole_")
        with consumer(system) as one:
            found = lines_of(type(one), lambda: apply(one, flush))
        self._compare(system, flush.tables)
        assert before.tables.keys() == flush.tables.keys()
        count = min(len(found), self.interruptions)
        return [found[i * len(found) // count] for i in range(count)]

    def _prepared(self, system: TargetSystem, case: History, prefix: str) -> tuple[Flush, Flush]:
        """What the table has, and what is applied next: the last transaction, or the first with a DDL event."""
        builder = self._builder(system, case, prefix=prefix)
        ddl = [i for i, steps in enumerate(case.transactions) if any(step.is_ddl for step in steps)]
        cut = ddl[0] if ddl else len(case.transactions) - 1
        before = builder.flush(case.transactions[:cut])
        with consumer(system) as one:
            self._create(one, builder)
            apply(one, before)
        return before, builder.flush(case.transactions[cut : cut + 1])

    def _interrupt(self, system: TargetSystem, case: History, places: list[Place], prefix: str) -> list[Place]:
        """Interrupt the same flush of one table at one place after another until it is done; returns the places left."""
        before, flush = self._prepared(system, case, prefix)
        where = flush.name
        while places:
            place, places = places[0], places[1:]
            where = f"{flush.name}, interrupted at {place[0]}:{place[1]}"
            with consumer(system) as one:
                came = interrupted_at(type(one), place, lambda one=one: apply(one, flush))  # type: ignore[misc]
            at_step(where)
            if self._is_done(system, before, flush) or not came:
                break
        with consumer(system) as again:
            apply(again, flush)
        at_step(f"{where}, then applied again")
        self._compare(system, flush.tables)
        return places

    def _is_done(self, system: TargetSystem, before: Flush, flush: Flush) -> bool:
        """Whether the interrupted flush has happened; each table is compared at the position that it says."""
        done = False
        for table in flush.tables:
            states = self._states(before, flush, table)
            with consumer(system) as reader, comparing(f"the progress of {table} and the positions it can have"):
                position = self._progress(reader, before.tables[table]).position
                assert position in states
            self._compare(system, {table: states[position]})
            done |= position == list(states)[-1]
        return done

    def _states(self, before: Flush, flush: Flush, table: TableId) -> Mapping[Position, ReferenceTable]:
        """The table's content by its position, before and after the flush's only item of it."""
        (item,) = (item for item in flush.items if item.table == table)
        after = item.position if isinstance(item, DDLEvent) else item.identity.position
        earlier = [item for item in before.items if item.table == table]
        assert after is not None
        last = earlier[-1]
        first = last.position if isinstance(last, DDLEvent) else last.identity.position
        assert first is not None
        return {first: before.tables[table], after: flush.tables[table]}
