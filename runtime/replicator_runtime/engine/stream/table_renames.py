"""Takes a RENAME_TABLE: the table keeps its rows and its place in the log under its new name, or is copied under it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from replicator_runtime.engine.run_state.attempt_end import Rejoin
from replicator_runtime.engine.tables.rename_step import Rename, aside, rename_steps
from replicator_runtime.engine.tables.table_scope import TableScope
from replicator_sdk import DDLEvent, DDLOperation, Position
from replicator_sdk.failpoint import failpoint, register

if TYPE_CHECKING:
    from collections.abc import Callable

    from replicator_runtime.engine.apply.active_tables import ActiveTables
    from replicator_runtime.engine.apply.applier import Applier
    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
    from replicator_sdk import TableId

register("engine.rename.saved")
log = structlog.get_logger()


class TableRenames:
    """Used by the engine's main thread. Takes the renames that come one after another as one: what follows them ends them.

    Of tables that exchange names all are renamed at the target, or none. Where one of them is not replicated (a new table
    that waits), a reader that begins later does not know of it, and reports that the others were replaced, not renamed. So
    they are copied under their new names then, and no replay depends on a rename that it does not repeat.

    Args:
        lifecycle: Of all tables.
        applier: Knows the target.
        tables: The tables that take changes.
        apply_before: Applies what is before an event in its table; as `InFlight.apply_before`.
        pass_over: Takes an event that its table has already; as `SchemaChanges.pass_over`.
    """

    def __init__(
        self,
        lifecycle: TableLifecycle,
        applier: Applier,
        tables: ActiveTables,
        apply_before: Callable[[DDLEvent], bool],
        pass_over: Callable[[DDLEvent, Position], None],
    ) -> None:
        self._lifecycle = lifecycle
        self._applier = applier
        self._tables = tables
        self._apply_before = apply_before
        self._pass_over = pass_over
        self._held: list[DDLEvent] = []
        self._left_out: list[DDLEvent] = []

    def take(self, event: DDLEvent) -> None:
        """Take a RENAME_TABLE, which waits until `end`: the names that others of its statement take are not known before."""
        assert event.prev_table is not None
        position = Position(self._tables.batcher.offset, event.ordinal + 1)
        watermark = self._tables.watermarks.get(event.prev_table)
        later = self._lifecycle.records.get(event.table)
        if later is not None and later.is_named_after(position) and not self._is_due(event.prev_table, position):
            return
        if watermark is None:
            self._left_out.append(event)
            return
        before = replace(event, table=event.prev_table, schema=None, needs_snapshot=False, position=position)
        if position <= watermark.position:
            self._left_out.append(event)
            self._pass_over(before, watermark.position)
        elif self._apply_before(before):
            self._held.append(replace(event, position=position))
        else:
            self._left_out.append(event)

    def _is_due(self, former: TableId, position: Position) -> bool:
        """Whether the table of the former name has had it since before, and lacks what came until then.

        So it is of one that failed while others went on, and took the new name.
        """
        watermark = self._tables.watermarks.get(former)
        lacks = watermark is not None and watermark.position < position
        return lacks and not self._lifecycle.records[former].is_named_after(position)

    def end(self) -> None:
        """Something else follows, so all renames of the statement are known.

        Raises:
            Rejoin: When tables have their new names, or are to be copied under them.
        """
        left_out, self._left_out = self._left_out, []
        if not self._held:
            return
        if self._awaits_names():
            self._leave("another table has the new name")
        former = {event.prev_table for event in (*self._held, *left_out)}
        if any(event.table in former for event in left_out):
            self._leave("a table that is not replicated yet takes one of the names")
        self._carry_out()

    def _awaits_names(self) -> bool:
        leaving = {held.prev_table for held in self._held}
        return any(held.table not in leaving and self._is_in_use(held.table) for held in self._held)

    def _is_in_use(self, table: TableId) -> bool:
        record = self._lifecycle.records.get(table)
        return record is not None and (record.selected or record.gone or record.copying)

    def _carry_out(self) -> None:
        why = self._why_not()
        if why:
            self._leave(why)
        held, self._held = self._held, []
        renames = [Rename(event.prev_table, event.table) for event in held if event.prev_table is not None]
        first, last = held[0].position, held[-1].position
        assert first is not None
        assert last is not None
        schemas = {r.former: self._lifecycle.records[r.former].schema for r in renames}
        steps = rename_steps(renames, schemas, aside, (first, last), held[-1].sequence_number)
        for rename in renames:
            self._tables.release(rename.former)
        self._lifecycle.rename(renames, last, steps)
        failpoint("engine.rename.saved")
        for rename in renames:
            copy = self._lifecycle.records[rename.table].copy_id
            self._lifecycle.run.totals.add(rename.table, copy, last, {"ddl": 1})
        raise Rejoin  # the next attempt begins with the target's part, as a run does that finds it undone

    def _why_not(self) -> str:
        """Why the tables that are held cannot be renamed at the target; empty when they can."""
        leaving = {held.prev_table for held in self._held}
        for event in self._held:
            why = "it is paused" if event.prev_table in self._tables.lanes else self._why_not_this(event)
            if not why and event.table in leaving and not self._has_room(event, aside(event.table)):
                why = "tables exchange their names, and the target cannot put one aside"
            if not why and event.table not in leaving and not self._has_room(event, event.table):
                why = "the target cannot rename it, or has a table of the new name"
            if why:
                return why
        return ""

    def _why_not_this(self, event: DDLEvent) -> str:
        assert event.prev_table is not None
        matches = self._lifecycle.run.pipeline.selection.matches
        old, new = matches(event.prev_table), matches(event.table)
        if new is None:
            return "the new name is not selected"
        if old is None or TableScope.of(old) != TableScope.of(new):
            return "the pipeline selects other parts of the two names"
        if any(DDLOperation.RENAME_TABLE in selected.ddl_blacklist for selected in (old, new)):
            return "RENAME_TABLE is on the ddlBlacklist"
        if event.schema is None or event.alters or event.needs_snapshot:
            return "its columns or rows may have changed in the same step"
        if self._may_hold_another(event):
            return "it was copied meanwhile, perhaps from the table that has its name now"
        return "" if self._lifecycle.takes_snapshots else "the source takes no snapshots"

    def _may_hold_another(self, event: DDLEvent) -> bool:
        """Whether rows were copied under the former name at a moment after the rename."""
        assert event.position is not None
        assert event.prev_table is not None
        return self._tables.watermarks[event.prev_table].overlaps(event.position.offset)

    def _has_room(self, event: DDLEvent, table: TableId) -> bool:
        """Whether the target renames the table to `table`, and has no table there."""
        assert event.prev_table is not None
        return self._applier.can_rename(event.prev_table, table) and not self._applier.has_table(table)

    def _leave(self, why: str) -> None:
        """The tables that are held stay at the target as they are; new names that are selected join like new tables."""
        held, self._held = self._held, []
        pauses = [(self._lifecycle.records[event.prev_table].pause, event.table) for event in held if event.prev_table]
        for event in held:
            assert event.prev_table is not None
            log.warning("table.left", table=str(event.prev_table), later=str(event.table), why=why)
            self._tables.forget(event.prev_table)
        for pause, table in pauses:
            if (
                pause is not None
                and not (pause.resuming or pause.failed)
                and self._lifecycle.run.pipeline.selection.matches(table)
            ):
                self._lifecycle.pass_pause_on(pause, table)
        raise Rejoin
