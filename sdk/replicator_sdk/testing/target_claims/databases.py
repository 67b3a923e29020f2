"""Claims about databases that the source creates and drops: they come and go, and take no table with them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replicator_sdk.event import DDLEvent, DDLOperation
from replicator_sdk.offset import Position
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.testing.failures.explained import at_step, comparing
from replicator_sdk.testing.failures.interruption import Place, interrupted_at, lines_of
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from replicator_sdk.testing.target_claims.table_life import SHAPE, TableLife
from replicator_sdk.testing.target_claims.target_system import TargetClaims, TargetSystem, consumer

_CREATE, _DROP = DDLOperation.CREATE_DATABASE, DDLOperation.DROP_DATABASE


def _event(database: str, operation: DDLOperation, number: int) -> DDLEvent:
    offset = MemoryOffset(number)
    return DDLEvent(offset, operation, TableId(database, ""), position=Position(offset, 1))


class DatabaseClaims(TargetClaims):
    """What targets promise whose consumers follow databases (`follows_databases`)."""

    def test_a_database_comes_and_goes(self, system: TargetSystem) -> None:
        """CREATE_DATABASE creates a database, DROP_DATABASE drops it, again and again; an event that comes again does nothing."""
        name = self._database(system, "made")
        self._apply(system, _event(name, _DROP, 1), exists=False)
        for number in (2, 4):
            self._apply(system, _event(name, _CREATE, number), exists=True)
            self._apply(system, _event(name, _DROP, number + 1), exists=False)

    @pytest.mark.parametrize("operation", [_CREATE, _DROP], ids=str)
    def test_an_interrupted_change_of_a_database_is_finished(
        self, system: TargetSystem, operation: DDLOperation
    ) -> None:
        """Interrupted at any line of the plugin, a database is there, or gone, when the event comes again."""
        places = self._places_of(system, operation)
        for number, place in enumerate(places):
            name = self._prepared_database(system, operation, f"i{number}")
            event = _event(name, operation, 2)
            with consumer(system) as one:
                interrupted_at(type(one), place, lambda one=one, event=event: one.apply_ddl(event))  # type: ignore[misc]
            at_step(f"{operation} {name}, interrupted at {place[0]}:{place[1]}, then applied again")
            with consumer(system) as again:
                again.apply_ddl(event)
            self._assert_exists(system, name, exists=operation is _CREATE)

    def test_a_database_with_a_table_stays(self, system: TargetSystem) -> None:
        """DROP_DATABASE drops no table: one that comes again, after the database and a table of it came back, changes nothing."""
        name = self._database(system, "used")
        life = TableLife(system, lambda: consumer(system), table_id=lambda table: _in(system, name, table))
        events = [_event(name, _CREATE, 0)]
        with consumer(system) as one:
            one.apply_ddl(events[0])
        life.create("a")
        life.insert("a")
        for _ in range(2):
            self._try(system, _event(name, _DROP, 1))
            self._assert_exists(system, name, exists=True)
            self._compare(system, life.tables)
            life.insert("a")
            self._compare(system, life.tables)

    def test_a_database_with_a_table_of_another_program_stays(self, system: TargetSystem) -> None:
        """DROP_DATABASE leaves a database alone in which another program has a table."""
        name = self._database(system, "shared")
        self._apply(system, _event(name, _CREATE, 1), exists=True)
        schema = TableSchema(_in(system, name, "foreign"), SHAPE.columns, SHAPE.primary_key)
        system.create_foreign_table(schema)
        self._try(system, _event(name, _DROP, 2))
        self._assert_exists(system, name, exists=True)
        with comparing(f"the rows of {schema.table} that another program made"):
            assert system.read_table(schema) == []

    def test_a_database_of_another_program_stays(self, system: TargetSystem) -> None:
        """DROP_DATABASE drops no database that another program created, though it is empty: its rights would be lost."""
        name = self._database(system, "foreign")
        system.create_foreign_database(name)
        self._assert_exists(system, name, exists=True)
        self._apply(system, _event(name, _CREATE, 1), exists=True)
        self._try(system, _event(name, _DROP, 2))
        self._assert_exists(system, name, exists=True)

    def _apply(self, system: TargetSystem, event: DDLEvent, *, exists: bool) -> None:
        """Apply the event by one consumer twice, and by another."""
        with consumer(system) as one, consumer(system) as other:
            for number, each in enumerate((one, one, other), 1):
                at_step(f"{event.operation} {event.table.database}, time {number}")
                each.apply_ddl(event)
                self._assert_exists(system, event.table.database, exists=exists)

    def _try(self, system: TargetSystem, event: DDLEvent) -> None:
        """Apply the event; it does nothing, or says so by an error that the runtime logs."""
        at_step(f"{event.operation} {event.table.database}, which is not to be dropped")
        with consumer(system) as one:
            one.apply_ddl(event)

    def _places_of(self, system: TargetSystem, operation: DDLOperation) -> list[Place]:
        event = _event(self._prepared_database(system, operation, "whole"), operation, 2)
        with consumer(system) as one:
            found = lines_of(type(one), lambda: one.apply_ddl(event))
        count = min(len(found), self.interruptions)
        return [found[i * len(found) // count] for i in range(count)]

    def _prepared_database(self, system: TargetSystem, operation: DDLOperation, name: str) -> str:
        """A database that the operation is to create, or to drop."""
        database = self._database(system, name)
        if operation is _DROP:
            with consumer(system) as one:
                one.apply_ddl(_event(database, _CREATE, 1))
        return database

    def _database(self, system: TargetSystem, name: str) -> str:
        with consumer(system) as one:
            if not one.follows_databases:
                pytest.skip("the target is given no events of databases (`follows_databases`)")
        return system.database_name(name)

    def _assert_exists(self, system: TargetSystem, name: str, *, exists: bool) -> None:
        with comparing(f"whether there is a database {name} at the target, and whether there should be"):
            assert system.has_database(name) is exists


def _in(system: TargetSystem, database: str, name: str) -> TableId:
    return replace(system.table_id(name), database=database)
