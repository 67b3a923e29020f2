"""Claims about tables that the source renames: rows and progress are under the new name, once, whatever ends the call."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from replicator_sdk.errors import DataError, FencedError, NeedsUserError, SchemaDriftError, SnapshotNeededError
from replicator_sdk.event import DDLEvent
from replicator_sdk.schema import TableId
from replicator_sdk.target import BatchConsumer, EventConsumer
from replicator_sdk.testing.failures.explained import at_step, comparing
from replicator_sdk.testing.failures.interruption import Place, interrupted_at, lines_of
from replicator_sdk.testing.target_claims.table_life import TableLife
from replicator_sdk.testing.target_claims.target_system import TargetClaims, TargetSystem, consumer

ASIDE = "_replicator_renamed_1"
_OF_THE_TABLE = (SnapshotNeededError, NeedsUserError, DataError, SchemaDriftError)


def _chain(life: TableLife) -> None:
    """`a` becomes `b`, then `c`."""
    life.create("a")
    for former, name in ("ab", "bc"):
        life.rename((former, name))
        life.insert(name)


def _shift(life: TableLife) -> None:
    """At once `b` becomes `c`, and `a` becomes `b`."""
    life.create("a", "b")
    life.rename(("b", "c"), ("a", "b"))
    life.insert("b", "c")


def _exchange(life: TableLife) -> None:
    """`a` and `b` exchange their names; the runtime puts one aside."""
    life.create("a", "b")
    life.rename(("a", ASIDE), ("b", "a"), (ASIDE, "b"))
    life.insert("a", "b")


def _former_name(life: TableLife) -> None:
    """A new table has the former name of another, and is renamed as well."""
    life.create("a")
    life.rename(("a", "b"))
    life.create("a")
    life.insert("a", "b")
    life.rename(("a", "c"))
    life.insert("b", "c")


def _there_and_back(life: TableLife) -> None:
    """A table has its first name again."""
    life.create("a")
    life.rename(("a", "b"))
    life.insert("b")
    life.rename(("b", "a"))
    life.insert("a")


LIVES: dict[str, Callable[[TableLife], None]] = {
    "chain": _chain,
    "at once": _shift,
    "exchange": _exchange,
    "former name": _former_name,
    "there and back": _there_and_back,
}


class RenameClaims(TargetClaims):
    """What targets promise whose `can_rename` allows renames; the runtime copies the tables of all others."""

    @pytest.mark.parametrize("name", LIVES)
    def test_a_renamed_table_keeps_its_rows_and_takes_changes(self, system: TargetSystem, name: str) -> None:
        """However tables are renamed, each has its rows and the position of the rename under its new name, no table has the
        former one, and a rename that comes again changes nothing.
        """
        self._need_renames(system)

        def take(event: DDLEvent) -> None:
            with consumer(system) as one, consumer(system) as other:
                for number, each in enumerate((one, one, other), 1):
                    at_step(f"{event.operation} {event.prev_table} to {event.table}, time {number}")
                    each.apply_ddl(event)
            self._assert_renamed(system, life, event)

        life = TableLife(system, lambda: consumer(system), take)
        LIVES[name](life)
        self._compare(system, life.tables)

    def test_an_interrupted_rename_is_finished(self, system: TargetSystem) -> None:
        """Interrupted at any line of the plugin, a rename that comes again is done once, with all rows."""
        self._need_renames(system)
        places: list[Place] = []

        def collect(event: DDLEvent) -> None:
            with consumer(system) as one:
                places.extend(lines_of(type(one), lambda: one.apply_ddl(event)))

        _chain(TableLife(system, lambda: consumer(system), collect, prefix="whole_"))
        distinct = list(dict.fromkeys(places))
        count = min(len(distinct), self.interruptions)
        for number in range(count):
            place = distinct[number * len(distinct) // count]
            self._interrupt_renames(system, place, f"i{number}_")

    def _interrupt_renames(self, system: TargetSystem, place: Place, prefix: str) -> None:
        def take(event: DDLEvent) -> None:
            with consumer(system) as one:
                interrupted_at(type(one), place, lambda: one.apply_ddl(event))
            what = f"{event.operation} {event.prev_table} to {event.table}"
            at_step(f"{what}, interrupted at {place[0]}:{place[1]}, then applied again")
            with consumer(system) as again:
                again.apply_ddl(event)
            self._assert_renamed(system, life, event)

        life = TableLife(system, lambda: consumer(system), take, prefix=prefix)
        _chain(life)
        self._compare(system, life.tables)

    def test_a_rename_to_a_name_in_use_changes_nothing(self, system: TargetSystem) -> None:
        """A rename to the name of another table raises SnapshotNeededError; both tables stay as they are."""
        self._need_renames(system)
        life = self._life(system)
        life.create("a", "b")
        event = life.rename_event("a", "b")
        with consumer(system) as one, comparing("the error of a rename to a name in use and SnapshotNeededError"):
            at_step(f"{event.operation} {event.prev_table} to {event.table}, which is there")
            with pytest.raises(SnapshotNeededError):
                one.apply_ddl(event)
        self._compare(system, life.tables)
        life.insert("a", "b")
        self._compare(system, life.tables)

    def test_a_rename_of_a_missing_table_makes_none(self, system: TargetSystem) -> None:
        """A rename of a table that is not there is an error of that table alone, and makes no table."""
        self._need_renames(system)
        event = self._life(system).rename_event("never", "a")
        with consumer(system) as one, comparing("the error of a rename of a missing table and one of the table alone"):
            at_step(f"{event.operation} {event.prev_table}, which is not there, to {event.table}")
            with pytest.raises(_OF_THE_TABLE):
                one.apply_ddl(event)
        self._assert_missing(system, event.table)

    def test_a_lower_epoch_renames_nothing(self, system: TargetSystem) -> None:
        """A rename by a writer of a lower epoch is refused with FencedError and changes nothing, also one that is done."""
        self._need_renames(system)
        self._need_fence()
        life = TableLife(system, lambda: consumer(system, epoch=2), epoch=2)
        life.create("a")
        event = life.rename_event("a", "b")
        at_step(f"{event.operation} {event.prev_table} to {event.table} by epoch 1 after epoch 2 has written")
        compared = "the error of an older run and FencedError"
        with consumer(system, epoch=1) as zombie, comparing(compared), pytest.raises(FencedError):
            zombie.apply_ddl(event)
        self._compare(system, life.tables)
        self._assert_missing(system, event.table, epoch=2)
        life.rename(("a", "b"))
        with consumer(system, epoch=1) as zombie, suppress(FencedError, SnapshotNeededError):
            at_step(f"{event.operation} {event.prev_table} to {event.table} by epoch 1 after epoch 2 has done so")
            zombie.apply_ddl(event)
        life.insert("b")
        self._compare(system, life.tables)

    def test_a_table_of_another_replicator_is_not_renamed(self, system: TargetSystem) -> None:
        """A replicator renames no table that another one writes: NeedsUserError, and nothing changes."""
        self._need_renames(system)
        if not self.refuses_foreign_tables:
            pytest.skip("the target does not store which replicator writes a table")
        life = self._life(system)
        life.create("a")
        event = life.rename_event("a", "b")
        with consumer(system, epoch=2, name="another") as other, comparing("the error of another replicator"):
            at_step(f"{event.operation} {event.prev_table} to {event.table} by another replicator")
            with pytest.raises(NeedsUserError):
                other.apply_ddl(event)
        self._compare(system, life.tables)
        life.insert("a")
        self._compare(system, life.tables)

    def _life(self, system: TargetSystem) -> TableLife:
        return TableLife(system, lambda: consumer(system))

    def _assert_renamed(self, system: TargetSystem, life: TableLife, event: DDLEvent) -> None:
        assert event.prev_table is not None
        assert event.position is not None
        self._compare(system, {event.table: life.tables[event.table]})
        with consumer(system) as one:
            assert isinstance(one, BatchConsumer)
            with comparing(f"the position of {event.table} and that of its rename"):
                found = one.progress(event.table)
                assert found is not None
                assert found.position == event.position
            with comparing(f"the progress of {event.prev_table}, which is no table any more"):
                former = one.progress(event.prev_table)
                assert former is None or not former.position < event.position

    def _assert_missing(self, system: TargetSystem, table: TableId, *, epoch: int = 1) -> None:
        with consumer(system, epoch=epoch) as one, comparing(f"the progress of {table} and None"):
            assert isinstance(one, BatchConsumer)
            assert one.progress(table) is None

    def _need_renames(self, system: TargetSystem) -> None:
        self._need_batches(system)
        with consumer(system) as one:
            if not _renames(one, system.table_id("a"), system.table_id("b"), system.table_id(ASIDE)):
                pytest.skip("the target has renamed tables copied (`can_rename`)")


def _renames(one: EventConsumer, *names: TableId) -> bool:
    return all(one.can_rename(former, name) for former in names for name in names if former != name)
