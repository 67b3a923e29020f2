"""Applies schema changes at their position among the rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from replicator_runtime.engine.apply.operation_filter import blacklisted_alter
from replicator_runtime.engine.lifecycle.old_schemas import forget_old_schemas
from replicator_runtime.engine.run_state.attempt_end import Rejoin
from replicator_runtime.engine.stream.steps_after_copy import steps_after_copy
from replicator_runtime.engine.structure.kept_columns import without_drops
from replicator_runtime.engine.structure.kinds import in_words
from replicator_runtime.engine.structure.policy import (
    Ruling,
    cannot_ignore,
    change_of,
    check_names,
    failing,
    rewriting_of,
    rule,
    rule_of_rewriting,
)
from replicator_runtime.engine.tables.table_watermark import TableWatermark
from replicator_sdk import DDLEvent, DDLOperation, Position
from replicator_sdk.errors import BugError
from replicator_sdk.failpoint import failpoint, register

if TYPE_CHECKING:
    from collections.abc import Callable

    from replicator_runtime.engine.apply.active_tables import ActiveTables
    from replicator_runtime.engine.apply.applier import Applier
    from replicator_runtime.engine.batching.sequencer import CommitMark
    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
    from replicator_runtime.engine.tables.table_store import TableRecord

register("engine.ddl.before_apply", "engine.ddl.after_apply")
log = structlog.get_logger()


class SchemaChanges:
    """Used by the engine's main thread.

    Args:
        lifecycle: Of all tables.
        applier: Applies.
        tables: The tables that take changes.
        apply_before: Applies what is before an event in its table; as `InFlight.apply_before`.
    """

    def __init__(
        self,
        lifecycle: TableLifecycle,
        applier: Applier,
        tables: ActiveTables,
        apply_before: Callable[[DDLEvent], bool],
    ) -> None:
        self._lifecycle = lifecycle
        self._run = lifecycle.run
        self._applier = applier
        self._tables = tables
        self._apply_before = apply_before
        self._known: list[tuple[DDLEvent, Position]] = []

    def apply(self, event: DDLEvent) -> None:
        """Apply what is before the event in its table, then the event.

        Raises:
            Rejoin: When the table is to be copied, or is gone.
        """
        position = Position(self._tables.batcher.offset, event.ordinal + 1)
        record = self._lifecycle.records.get(event.table)
        if record is not None and record.is_named_after(position):
            return
        watermark = self._tables.watermarks.get(event.table)
        created = event.operation is DDLOperation.CREATE_TABLE and event.table not in self._lifecycle.records
        new_table = created and self._run.pipeline.selection.matches(event.table) is not None
        if watermark is None and not new_table:
            return
        event = replace(event, position=position)
        if not self._apply_before(event) and watermark is not None:
            return
        if watermark is not None and position <= watermark.position:
            self.pass_over(event, watermark.position)
            return
        try:
            self._change_schema(event)
        except Rejoin:
            raise
        except Exception as error:  # noqa: BLE001 - the policy decides
            self._tables.failed(event.table, error)

    def commit(self, mark: CommitMark) -> None:
        """The open window ended: finish events that their tables have, where an earlier run did not.

        Raises:
            BugError: When a table's position is inside the transaction of such an event: then the event was skipped
                although the table does not have it. Nothing of the transaction is applied to that table or saved.
            Rejoin: When the table is to be copied, or is gone.
        """
        known, self._known = self._known, []
        for event, watermark in known:
            if mark.start < watermark.offset < mark.commits.offset_at(0):
                raise BugError(
                    f"the position {watermark} of the table is inside the transaction of a change of structure, which begins"
                    f" after {mark.start} and ends at {mark.commits.offset_at(0)}",
                    code="RPL-9013",
                    hint="report it with the log and the source's plugin; nothing of that transaction is saved",
                    table=str(event.table),
                    position=str(event.position),
                )
        for event, watermark in known:
            self._finish(event, watermark)

    def _finish(self, event: DDLEvent, watermark: Position) -> None:
        """Complete what a run does after an event is applied at the target, where it may have ended before."""
        assert event.position is not None
        record = self._lifecycle.records.get(event.table)
        if record is None:
            return
        mark = self._tables.watermarks.get(event.table)
        counts_again = mark is not None and mark.recount is not None and mark.recount.takes(event.position)
        if counts_again and self._was_applied(record, event):
            self._run.totals.add(event.table, record.copy_id, event.position, {"ddl": 1})
        if event.schema is not None and record.learn_older(event.position, event.schema, watermark):
            self._lifecycle.save()
        if record.snapshot is None or not Position(record.snapshot.first) < event.position:
            return  # the table was copied after the event
        if event.operation is DDLOperation.DROP_TABLE:
            self._tables.forget(event.table)
            raise Rejoin
        if event.needs_snapshot:
            self._copy_again(record, event)
            raise Rejoin

    def _was_applied(self, record: TableRecord, event: DDLEvent) -> bool:
        """Whether the target was given anything of an event that its table has: not of one that was left out or ignored, or is in the copy."""
        selected = self._run.pipeline.selection.matches(event.table)
        if selected is not None and event.operation in selected.ddl_blacklist:
            return False
        since_copy = _since_copy(record, event)
        decided = record.decision_at(event.position)
        if since_copy is None or decided is None or decided.approved:
            return since_copy is not None
        return without_drops(since_copy) is not None

    def pass_over(self, event: DDLEvent, watermark: Position) -> None:
        """The event's table, whose position is `watermark`, has the event: see at the next commit whether that is true."""
        self._known.append((event, watermark))

    def _change_schema(self, event: DDLEvent) -> None:
        record = self._lifecycle.take_in(event.table)
        selected = self._run.pipeline.selection.matches(event.table)
        if selected is not None and event.operation in selected.ddl_blacklist:
            self._leave_out(record, event)
            return
        if event.operation is DDLOperation.DROP_TABLE and event.table in self._tables.lanes:
            self._drop_in_lane(record, event)
            raise Rejoin
        assert event.position is not None
        since_copy = _since_copy(record, event)
        if since_copy is None:
            return
        event = since_copy
        assert event.position is not None
        for_target = self._ruled(record, event)
        self._note(record, event)
        if for_target is None:
            log.warning("ddl.ignored", table=str(event.table), operation=str(event.operation))
            return
        failpoint("engine.ddl.before_apply")
        if event.operation is DDLOperation.CREATE_TABLE:
            is_new = not record.created and record.snapshot is None
            self._applier.create_table(event, self._run.generation, is_new=is_new)
            record.created = True
            self._lifecycle.save()  # before it has changes
        else:
            self._applier.apply_ddl(for_target)
        failpoint("engine.ddl.after_apply")
        if event.operation is DDLOperation.DROP_TABLE:
            self._tables.forget(event.table)  # a new table of that name joins like any other
            raise Rejoin
        if event.table not in self._tables.lanes:  # else it is counted when the target has it
            self._run.totals.add(event.table, record.copy_id, event.position, {"ddl": 1})
        log.info("ddl.applied", table=str(event.table), operation=str(event.operation), position=str(event.position))
        if event.operation is DDLOperation.CREATE_TABLE and event.table not in self._tables.watermarks:
            self._tables.watermarks[event.table] = TableWatermark(event.position)
            self._lifecycle.create(record)
        elif event.table in self._tables.watermarks:
            self._tables.watermarks[event.table].position = event.position
        if event.needs_snapshot:
            self._copy_again(record, event)
            raise Rejoin

    def _leave_out(self, record: TableRecord, event: DDLEvent) -> None:
        """Follow the `ddlBlacklist`, which has the event's operation."""
        if event.operation is DDLOperation.ALTER_TABLE:
            raise blacklisted_alter(event)
        if event.operation is DDLOperation.DROP_TABLE:
            self._tables.forget(event.table)
            raise Rejoin
        if event.needs_snapshot:  # the rows are now those of another table: leaving the event out would mix the two
            self._note(record, event)
            self._copy_again(record, event)
            raise Rejoin

    def _ruled(self, record: TableRecord, event: DDLEvent) -> DDLEvent | None:
        """What the target gets of the event, now or by the table's lane; None for nothing.

        Raises:
            Rejoin: When the table waits for a decision from now on, or is gone.
            SchemaDriftError: RPL-6002 or RPL-6003 by the pipeline's policy, RPL-6004 where the target has kept a column of its name.
        """
        policies, is_kept = self._run.config.ddl_policies, event.table in self._tables.lanes
        ruling = rule(event, record, policies)
        if ruling is Ruling.FAIL:
            raise failing(event.table, in_words(event), event.position)
        assert event.position is not None
        if ruling is Ruling.ASK:
            change = change_of(event, record, policies)
            if is_kept:
                self._lifecycle.hold_in_lane(record, change)
                return event
            has_lane = not event.needs_snapshot and event.operation is not DDLOperation.DROP_TABLE
            self._lifecycle.hold(record, change, has_lane=has_lane)
            raise Rejoin
        if ruling is Ruling.IGNORE:
            self._note_ignored(record, event)
        if is_kept:
            return event
        check_names(event, record)
        return event if ruling is Ruling.APPLY else without_drops(event)

    def hold_rewritten(self, record: TableRecord) -> None:
        """Rows of the table were rewritten by a change that is not in the log: ask an operator, or let it fail, if the pipeline says so.

        Raises:
            SchemaDriftError: RPL-6003 by the pipeline's policy.
            Rejoin: When the table waits for a decision from now on.
        """
        ruling = rule_of_rewriting(self._run.config.ddl_policies)
        change = rewriting_of(record.table, Position(self._tables.batcher.offset))
        if ruling is Ruling.FAIL:
            raise failing(record.table, change.text, change.position)
        if ruling is not Ruling.ASK:
            return
        if record.table in self._tables.lanes:
            self._lifecycle.hold_in_lane(record, change)
            self._tables.lose_lane(record, "its rows were rewritten at the source")
        else:
            self._lifecycle.hold(record, change, has_lane=False)
        raise Rejoin

    def _note_ignored(self, record: TableRecord, event: DDLEvent) -> None:
        """Store that the target goes on without the change, so that a replay does as well, also after an edit of the pipeline."""
        assert event.position is not None
        if record.decision_at(event.position) is None:
            policies = self._run.config.ddl_policies
            change = change_of(event, record, policies)
            if change.only_approved:
                raise cannot_ignore(event, change)
            self._lifecycle.decide(record, change, approved=False, request_id="")
            self._lifecycle.save()
        if event.operation is DDLOperation.DROP_TABLE:
            self._tables.forget(event.table)
            raise Rejoin

    def _drop_in_lane(self, record: TableRecord, event: DDLEvent) -> None:
        """A paused table is gone: its lane is dropped. Where an operator is asked of it, or of the table's other changes, also of this."""
        assert event.position is not None
        policies = self._run.config.ddl_policies
        if record.undecided or rule(event, record, policies) is Ruling.ASK:
            change = change_of(event, record, policies)
            self._lifecycle.hold_in_lane(record, change)
        self._tables.lose_lane(record, "the source has dropped the table")

    def _copy_again(self, record: TableRecord, event: DDLEvent) -> None:
        why = f"{event.operation}: its rows may have values that the log does not have"
        log.warning("table.copied_again", table=str(record.table), position=str(event.position), why=why)
        self._tables.copy_again(record)

    def _note(self, record: TableRecord, event: DDLEvent) -> None:
        """Store what a later run needs that finds the event applied: this one may end before it records that."""
        news = False
        if event.operation is DDLOperation.DROP_TABLE:
            record.dropping, news = event.position, True
        elif event.schema is not None:
            news = record.learn(event.position, event.schema)
            forget_old_schemas(self._run, [record])
        if news:
            self._lifecycle.save()


def _since_copy(record: TableRecord, event: DDLEvent) -> DDLEvent | None:
    """The event without what the table's copy has already; None when nothing is left of it."""
    if event.operation is not DDLOperation.ALTER_TABLE or event.schema is None:
        return event
    assert event.position is not None
    copied = record.copied_before(event.position)
    if copied is None:
        return event
    if copied == event.schema and not event.needs_snapshot:
        return None
    return steps_after_copy(event, copied)
