"""The captured tables: their selected columns, how their rows are decoded, and what a statement changes in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from replicator_sdk.authoring.log_position import StructureChange
from replicator_sdk.config import OutOfRange
from replicator_sdk.context import Metrics
from replicator_sdk.errors import SchemaDriftError
from replicator_sdk.event import DDLOperation
from replicator_sdk.schema import TableId, TableSchema, rename_table
from replicator_sdk.source import EventReaderDefinition
from replicator_source_mysql.binlog.batches.table_plan import TablePlan
from replicator_source_mysql.binlog.rows.table_map import TableMap
from replicator_source_mysql.config import MySqlConfig
from replicator_source_mysql.ddl.apply.table_change import ChangeKind, TableChange
from replicator_source_mysql.ddl.diff.schema_diff import table_steps
from replicator_source_mysql.definition import TableDefinition
from replicator_source_mysql.hints import COPY_TABLE_AGAIN
from replicator_source_mysql.types.mapping import table_schema
from replicator_source_mysql.types.values.out_of_range import ZERO_DATE, Policy


class Definitions(Protocol):
    """The definitions of tables at the position that has been read up to."""

    def definition(self, table: TableId) -> TableDefinition | None:
        """The table's definition; None when rows of it come from before it was captured.

        Raises:
            SchemaDriftError: When a statement that was not understood has touched it.
        """


class CapturedTables:
    """The captured tables. Used by the reader's thread.

    Args:
        definition: Tables, policy, and which tables are narrowed to selected columns.
        config: The source's settings.
        definitions: Where definitions come from.
        logs_generated: As in `TablePlan`.
    """

    def __init__(
        self,
        definition: EventReaderDefinition,
        config: MySqlConfig,
        definitions: Definitions,
        *,
        logs_generated: bool = True,
    ) -> None:
        self._logs_generated = logs_generated
        self._marks_refused = definition.marks_refused
        self._definitions = definitions
        self._zero_dates = config.zero_dates
        self._out_of_range: OutOfRange = config.out_of_range or definition.out_of_range
        self._selected: dict[TableId, frozenset[str] | None] = {
            table: frozenset(schema.names) if table in definition.narrowed else None
            for table, schema in definition.tables.items()
        }
        self._given = dict(self._selected)
        self._replaced: dict[TableId, Counter[str]] = {}

    def __contains__(self, table: TableId) -> bool:
        return table in self._selected

    def plan(self, table_map: TableMap) -> TablePlan | None:
        """How to decode a table's rows; None for tables that are not captured."""
        table = TableId(table_map.database, table_map.table)
        if table not in self._selected:
            return None
        definition = self._definitions.definition(table)
        if definition is None:
            return None
        replaced = self._replaced.setdefault(table, Counter())
        policy = Policy(self._zero_dates, self._out_of_range, str(table), replaced)
        schema = self._schema(definition)
        return TablePlan(schema, definition, policy, self._logs_generated, self._marks_refused)

    def _schema(self, definition: TableDefinition) -> TableSchema:
        return table_schema(definition, zero_dates=self._zero_dates, names=self._selected[definition.table])

    def are_renames(self, changes: Sequence[TableChange]) -> bool | None:
        """Whether one statement's renames are emitted as such; None when it renames no captured table.

        A table whose place is taken by one that is not captured (gh-ost, pt-online-schema-change) is a table with new
        rows, not a rename.
        """
        moves = net_moves(changes)
        known = [former for former in moves if former in self._selected]
        if not known:
            return None
        return not any(table in known for former, table in moves.items() if former not in known)

    def net(self, changes: Sequence[TableChange], *, renames: bool) -> list[StructureChange | None]:
        """What one statement did to the captured tables. A statement that renames several tables counts as a whole: each
        that was captured has the name that it has in the end.

        Args:
            changes: What the statement did, step by step.
            renames: As `are_renames` gave it where the statement was read first; a replay may capture other tables.

        Returns:
            What happened, each at its rank among all tables that the statement changes; None where a table is not captured
            or does not change, so that the ranks do not depend on which tables are captured.

        Raises:
            SchemaDriftError: When it is not understood and touches one of them.
        """
        for change in changes:
            if change.kind is ChangeKind.UNKNOWN and change.table in self._selected:
                raise _not_understood(change)
        names = dict.fromkeys(name for change in changes for name in (change.previous_table, change.table) if name)
        moves = net_moves(changes)
        known = {former: table for former, table in moves.items() if former in self._selected}
        if renames:
            found = self._renamed(known, changes)
        else:
            found = {table: [*self._net(table, changes)] for table in names if table in self._selected}
        self._capture_again(changes)
        return [place for name in names for place in _ranked(found.get(name, []), name, changes)]

    def _capture_again(self, changes: Sequence[TableChange]) -> None:
        """A table has taken a name that the reader was given and whose table has another name by now.

        A replay from before both meets the former one under that name, and it may be the later one that was copied.
        """
        for change in changes:
            is_new = change.kind in {ChangeKind.CREATED, ChangeKind.RENAMED}
            if is_new and change.table in self._given and change.table not in self._selected:
                self._selected[change.table] = self._given[change.table]

    def _renamed(
        self, moves: Mapping[TableId, TableId], changes: Sequence[TableChange]
    ) -> dict[TableId, list[StructureChange]]:
        """Captured tables have other names; each keeps its selected columns. By their former names."""
        before = {former: self._before(former, changes) for former in moves}
        old = {former: None if there is None else self._schema(there) for former, there in before.items()}
        followed = {table.database for table in self._selected}
        selected = {table: self._selected.pop(former) for former, table in moves.items()}
        self._selected |= selected
        after = {change.table: change.after for change in changes if change.kind is ChangeKind.RENAMED}
        found: dict[TableId, list[StructureChange]] = {}
        for former, table in moves.items():
            there, was = after.get(table), old[former]
            known = there is not None and was is not None and table.database in followed
            schema = self._schema(there) if known and there is not None else None
            is_same = schema is not None and was is not None and schema == rename_table(was, table)
            rewritten = any(c.needs_snapshot or c.rewritten for c in changes if c.table == table)
            found[former] = [
                StructureChange(
                    DDLOperation.RENAME_TABLE, table, schema, former, needs_snapshot=rewritten or not is_same
                )
            ]
        return found

    def _net(self, table: TableId, changes: Sequence[TableChange]) -> Iterable[StructureChange]:
        here = [change for change in changes if change.table == table]
        away = next((c for c in changes if c.kind is ChangeKind.RENAMED and c.previous_table == table), None)
        came = next((c for c in here if c.kind in {ChangeKind.RENAMED, ChangeKind.CREATED}), None)
        gone = away is not None or any(change.kind is ChangeKind.DROPPED for change in here)
        if came is not None and came.after is not None:
            yield from self._replaced_by(table, came, before=self._before(table, changes))
        elif gone and away is not None:
            yield StructureChange(DDLOperation.RENAME_TABLE, away.table, None, table)
        elif gone:
            yield StructureChange(DDLOperation.DROP_TABLE, table)
        else:
            for change in here:
                yield from self._altered(change)

    def _before(self, table: TableId, changes: Sequence[TableChange]) -> TableDefinition | None:
        """The table that had the name before the statement."""
        for change in changes:
            if (change.previous_table or change.table) == table and change.before is not None:
                return change.before
        return None

    def _replaced_by(
        self, table: TableId, change: TableChange, before: TableDefinition | None
    ) -> Iterable[StructureChange]:
        """Another table has taken the name: columns are compared by name, and the rows are read again."""
        assert change.after is not None
        after = change.after
        if before is None:
            return  # the table is new, and joins by its own snapshot
        old, new = self._schema(before), self._schema(after)
        same = {name: name for name in old.names if name in new}
        alters, _ = table_steps(before, after, old, new, same, zero_dates=self._zero_dates)
        yield StructureChange(DDLOperation.ALTER_TABLE, table, new, alters=alters, needs_snapshot=True)

    def _altered(self, change: TableChange) -> Iterable[StructureChange]:
        if change.before is None or change.after is None:
            return
        old = self._schema(change.before)
        selected = self._selected[change.table]
        if selected is not None:
            self._selected[change.table] = frozenset(new for new, was in change.origins.items() if was in selected)
        new = self._schema(change.after)
        if change.kind is ChangeKind.TRUNCATED:
            yield StructureChange(DDLOperation.TRUNCATE_TABLE, change.table, new)
            return
        alters, keeps = table_steps(
            change.before,
            change.after,
            old,
            new,
            change.origins,
            zero_dates=self._zero_dates,
            rewritten=change.rewritten,
        )
        needs_snapshot = change.needs_snapshot or not keeps
        if alters or needs_snapshot:
            yield StructureChange(
                DDLOperation.ALTER_TABLE, change.table, new, alters=alters, needs_snapshot=needs_snapshot
            )

    def count_replaced(self, metrics: Metrics) -> None:
        """Report how many values were replaced since the last call."""
        for table, replaced in self._replaced.items():
            for what, count in replaced.items():
                metrics.count("source.zero_dates" if what == ZERO_DATE else "source.out_of_range", count, table=table)
            replaced.clear()


def _ranked(
    found: Sequence[StructureChange], table: TableId, changes: Sequence[TableChange]
) -> list[StructureChange | None]:
    """What happened to `table`, with as many places as it takes when it is captured at most."""
    places = max(1, sum(change.table == table for change in changes))
    return [*found, *[None] * (places - len(found))]


def net_moves(changes: Sequence[TableChange]) -> dict[TableId, TableId]:
    """Name before → name after, of the tables that one statement renames, over all its steps."""
    origins: dict[TableId, TableId] = {}
    for change in changes:
        if change.kind is ChangeKind.RENAMED and change.previous_table is not None:
            origins[change.table] = origins.pop(change.previous_table, change.previous_table)
    return {former: table for table, former in origins.items() if former != table}


def _not_understood(change: TableChange) -> SchemaDriftError:
    return SchemaDriftError(
        f"the statement {change.head!r} is not understood: {change.reason}",
        code="RPL-3790",
        table=str(change.table),
        hint=f"report the statement; {COPY_TABLE_AGAIN}",
    )
