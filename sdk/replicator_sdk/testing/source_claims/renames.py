"""Claims about sources that emit RENAME_TABLE: which table is which after renames, at every replay."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import ClassVar

import pytest

from replicator_sdk.event import DDLEvent
from replicator_sdk.schema import TableId, TableSchema, rename_table
from replicator_sdk.testing.failures.explained import assert_same, at_step, comparing
from replicator_sdk.testing.histories.history import Step, load_case
from replicator_sdk.testing.histories.reference import Change, Reference
from replicator_sdk.testing.histories.values import difference
from replicator_sdk.testing.recording import Logged, is_rename, recording, schemas_at, signature, together
from replicator_sdk.testing.source_system import SourceClaims, SourceSystem, table_of

_SHAPE = load_case("seed_with_primary_key").tables["customers"]


class _Tables:
    """Tables at the source that take rows and get other names.

    Attributes:
        now: The tables that are there, by their names at the source.
        renames: What was renamed at once: name before, name after.
        settle: Called after each change: a source may notice renames by the catalogue, one at a time.
    """

    def __init__(self, system: SourceSystem) -> None:
        self.settle: Callable[[], object] = list
        self.now: dict[TableId, TableSchema] = {}
        self.renames: list[Mapping[TableId, TableId]] = []
        self._system, self._rows = system, 0
        self._ids = {name: system.create_table(name, _SHAPE) for name in ("kit_a", "kit_b")}
        with system.source.create_table_registry() as registry:
            self.now = {table: registry.describe_table(table) for table in self._ids.values()}

    def table_id(self, name: str) -> TableId:
        """A name at the source that is like those of the tables that were created."""
        first = self._ids["kit_a"]
        return TableId(first.database, first.table.replace("kit_a", f"kit_{name}"), first.schema)

    def insert(self, *names: str) -> None:
        """Add a row to each table, in one transaction."""
        steps = []
        for name in names:
            self._rows += 1
            rows = {"rows": [{"id": self._rows, "name": f"row {self._rows}"}]}
            steps.append((Step("insert", name, rows), self.now[self.table_id(name)]))
        at_step(f"insert into {', '.join(names)}")
        self._system.execute(steps)
        self.settle()

    def rename(self, **names: str) -> None:
        """Give tables other names, all at once."""
        renames = {self.table_id(former): self.table_id(name) for former, name in names.items()}
        at_step(f"rename {', '.join(f'{former} to {name}' for former, name in renames.items())}")
        self._system.rename_tables(renames)
        moved = {name: rename_table(self.now.pop(former), name) for former, name in renames.items()}
        self.now |= moved
        self.renames.append(renames)
        self.settle()


def _chain(tables: _Tables) -> None:
    tables.rename(a="c")
    tables.insert("c", "b")
    tables.rename(c="d")
    tables.insert("b", "d")


def _at_once(tables: _Tables) -> None:
    tables.rename(b="c", a="b")
    tables.insert("b", "c")


def _exchange(tables: _Tables) -> None:
    tables.rename(a="b", b="a")
    tables.insert("a", "b")
    tables.insert("b")


def _former_name(tables: _Tables) -> None:
    tables.rename(a="c")
    tables.insert("c")
    tables.rename(b="a")
    tables.insert("a", "c")


LIVES: Mapping[str, Callable[[_Tables], None]] = {
    "chain": _chain,
    "at once": _at_once,
    "exchange": _exchange,
    "former name": _former_name,
}


class SourceRenameClaims(SourceClaims):
    """What sources promise whose log shows that a table has another name."""

    emits_renames: ClassVar[bool] = False
    """Tables that get another name are emitted as RENAME_TABLE. The kit then needs `SourceSystem.rename_tables`."""

    @pytest.mark.parametrize("name", LIVES)
    def test_a_renamed_table_is_followed(self, system: SourceSystem, name: str) -> None:
        """Each rename is one RENAME_TABLE with both names; those that happened at once come one after another. Rows before it
        have the former name, rows after it the new one, unless the table is to be copied; every replay repeats all of it.
        """
        if not self.emits_renames:
            pytest.skip("the source emits no RENAME_TABLE")
        tables = _Tables(system)
        described = dict(tables.now)
        with recording(system.source, described, None) as reader:
            reader.run()
            tables.settle = partial(reader.catch_up, self.wait_seconds)
            tables.insert("a", "b")
            LIVES[name](tables)
            logged = reader.catch_up(self.wait_seconds)
        at_step("all is read")
        self._compare_renames(tables, logged)
        self._compare_rows(system, tables, described, logged)
        for start in [reader.start, *sorted({entry.offset for entry in logged})]:
            at_step(f"read again from {start}")
            then, now = schemas_at(described, logged, start), list(tables.now.values())
            with recording(system.source, then, start, capture=now, state=reader.context.state) as again:
                again.run()
                with comparing("what is emitted again and what was emitted after that offset"):
                    found = [signature(entry) for entry in again.catch_up(self.wait_seconds)]
                    assert found == [signature(entry) for entry in logged if start < entry.offset]

    def _compare_renames(self, tables: _Tables, logged: Sequence[Logged]) -> None:
        """What was renamed at once is emitted together, in any order."""
        changes = together([entry.change for entry in logged])
        groups = [_names(group) for group in changes if is_rename(group[0])]
        with comparing("the renames that are emitted together and those that happened at once"):
            assert groups == [dict(renames) for renames in tables.renames]

    def _compare_rows(
        self, system: SourceSystem, tables: _Tables, described: Mapping[TableId, TableSchema], logged: Sequence[Logged]
    ) -> None:
        """Tables that are followed have their rows; of one that is to be copied nothing comes under its former name."""
        reference = Reference()
        for schema in described.values():
            reference.create(schema)
        stale: set[TableId] = set()
        for changes in together([entry.change for entry in logged]):
            if is_rename(changes[0]):
                stale = _renamed(reference, changes, stale)
            elif table_of(changes[0]) not in stale:
                with comparing("the table of a change and those that are there by then"):
                    assert table_of(changes[0]) in reference.tables
                reference.apply(changes[0])
        for table, schema in tables.now.items():
            if table not in stale:
                compared = f"the rows of {table} at the source and as emitted"
                with comparing(compared):
                    rows = reference.tables[table].rows
                assert_same(compared, difference(schema, system.read_table(schema), rows))


def _names(events: Sequence[Change]) -> Mapping[TableId | None, TableId]:
    return {event.prev_table: event.table for event in events if isinstance(event, DDLEvent)}


def _renamed(reference: Reference, events: Sequence[Change], stale: set[TableId]) -> set[TableId]:
    """Rename tables at once; returns the names of those whose rows the log does not show any more."""
    held = {}
    left = set(stale)
    for event in events:
        assert isinstance(event, DDLEvent)
        assert event.prev_table is not None
        held[event.prev_table] = reference.tables.pop(event.prev_table, None)
        left.discard(event.prev_table)
    for event in events:
        assert isinstance(event, DDLEvent)
        assert event.prev_table is not None
        table = held[event.prev_table]
        if event.schema is None or event.alters or event.needs_snapshot or event.prev_table in stale or table is None:
            left.add(event.table)
        else:
            table.schema = event.schema
            reference.tables[event.table] = table
    return left
