"""Goes back to an earlier offset: checks everything, notes it, has the target bring tables back, then saves the offset again.

Each step may be repeated. A run, or another rewind, that finds the note does all of them again before anything else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
from replicator_runtime.engine.rewind.choice import choose
from replicator_runtime.engine.rewind.plan import check_log, plan_rewind, rewindable
from replicator_runtime.engine.run_state.open_run import check_user, has_run, keeping_lease, open_run
from replicator_runtime.engine.run_state.plugin_contexts import TargetContext
from replicator_runtime.engine.slices.slice_store import SliceStore
from replicator_runtime.engine.tables.rewind_note import RewindNote, forget_note, load_note, store_note
from replicator_sdk import Position
from replicator_sdk.errors import NeedsUserError
from replicator_sdk.failpoint import failpoint, register
from replicator_state import check_identity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from replicator_runtime.config import Pipeline
    from replicator_runtime.engine.rewind.choice import Wanted
    from replicator_runtime.engine.rewind.plan import RewindPlan
    from replicator_runtime.engine.run_state.run import Run
    from replicator_sdk import RewindableConsumer, TableId

register("engine.rewind.noted", "engine.rewind.table", "engine.rewind.tables", "engine.rewind.saved")
log = structlog.get_logger()


def rewind(
    pipeline: Pipeline,
    wanted: Wanted | None,
    confirm: Callable[[RewindPlan], None],
    finished: Callable[[str], None] = lambda offset: None,  # noqa: ARG005 - for callers that do not report it
) -> RewindPlan | None:
    """Finish a rewind that an earlier process began, then do the one that is wanted.

    Args:
        pipeline: The pipeline.
        wanted: The offset; None only to finish what was begun.
        confirm: Given the plan, while no run can start; raises to change nothing.
        finished: Given the offset of the rewind that was begun earlier.

    Returns:
        What was done; None when only a rewind that was begun was finished.

    Raises:
        NeedsUserError: RPL-1231 when it never ran, RPL-1273 without `wanted` and without a rewind to finish; as `choose` and
            `plan_rewind`; RPL-7130 when a run goes on; RPL-7106 for root where the state is another user's.
        HistoryLostError: As `check_log`; RPL-7140 when the source is another one.
        ReplicatorError: As source, target or state fail. After the note is stored the rewind is finished by the next process.
    """
    if not has_run(pipeline):
        raise NeedsUserError(
            "it never ran: there is nothing to go back to", code="RPL-1231", hint="start it with `replicator run`"
        )
    check_user(pipeline)
    with open_run(pipeline) as run, keeping_lease(run):
        try:
            return _rewind(run, wanted, confirm, finished)
        finally:
            run.spark.stop()


def _rewind(
    run: Run, wanted: Wanted | None, confirm: Callable[[RewindPlan], None], finished: Callable[[str], None]
) -> RewindPlan | None:
    lifecycle = TableLifecycle(run)
    run.load_offset()
    lifecycle.load()
    check_identity(run.store, run.pipeline.source.identity())
    if finish_rewind(lifecycle):
        finished(str(run.saved_offset))
        if wanted is None:
            return None
    if wanted is None:
        raise NeedsUserError(
            "no offset is given, and no rewind is to be finished",
            code="RPL-1273",
            hint="give `--offset` or `--time`; `replicator offsets list` shows the offsets that are kept",
        )
    choice = choose(run, wanted)
    check_log(run, choice)
    consumer = run.pipeline.target.create_consumer(TargetContext(run))
    try:
        able = rewindable(consumer)
        consumer.start()
        plan = plan_rewind(lifecycle, able, choice)
        confirm(plan)
        run.lease.check()
        note = _note(lifecycle, plan)
        store_note(run.store, note)
        failpoint("engine.rewind.noted")
        _carry_out(lifecycle, able, note)
    finally:
        consumer.stop()
    return plan


def finish_rewind(lifecycle: TableLifecycle) -> bool:
    """Finish the rewind that an earlier process began; returns whether there was one. Offset and tables are loaded.

    Raises:
        NeedsUserError: RPL-1277 when the target cannot bring a table back any more: no run goes on then.
        ReplicatorError: As target or state fail; it is to be finished later.
    """
    run = lifecycle.run
    note = load_note(run.store, run.read_offset)
    if note is None:
        return False
    log.warning("rewind.resumed", offset=str(note.offset))
    consumer = run.pipeline.target.create_consumer(TargetContext(run))
    try:
        able = rewindable(consumer)
        consumer.start()
        _carry_out(lifecycle, able, note)
    except NeedsUserError as error:
        raise NeedsUserError(
            f"the rewind to {note.offset} was begun and cannot be finished: {error}",
            code="RPL-1277",
            hint="remove the cause, or have every table copied again: `replicator reset PIPELINE`",
        ) from error
    finally:
        consumer.stop()
    return True


def _note(lifecycle: TableLifecycle, plan: RewindPlan) -> RewindNote:
    choice, records = plan.choice, lifecycle.records
    here = Position(choice.offset)
    back = tuple(one.table for one in plan.tables if one.back is not None)
    staying = [(one.table, one.now) for one in plan.tables if one.back is None and one.now is not None]
    # A table that is left in the log is between two offsets in its own way: none of them is before or after it.
    ahead = tuple((table, now) for table, now in staying if records[table].is_in_log or here < now)
    return RewindNote(choice.offset, choice.saved.sequence_number, choice.saved.commit_timestamp, back, ahead)


def _carry_out(lifecycle: TableLifecycle, consumer: RewindableConsumer, note: RewindNote) -> None:
    """Do all of it; done twice it changes nothing more."""
    run = lifecycle.run
    run.known_runs.add_copies([r.copy_id for table, r in lifecycle.records.items() if table in note.tables])
    reached: dict[TableId, Position] = {}
    for table in note.tables:
        run.lease.check()
        progress = consumer.rewind_table(table, Position(note.offset))
        if progress is not None:
            reached[table] = progress.position
        failpoint("engine.rewind.table")
        log.info("rewind.table", table=str(table), position=str(reached.get(table, "")))
    failpoint("engine.rewind.tables")
    records = [lifecycle.records[table] for table in note.tables if table in lifecycle.records]
    lifecycle.positions.set_back(
        {record.table: (record.copy_id, reached[record.table]) for record in records if record.table in reached}
    )
    # The schemas that the log says again: what is read is decoded by those of its time, and changes of structure are applied.
    shortened = [record for record in records if record.forget_schemas_after(note.offset)]
    if shortened:
        lifecycle.save()
    ahead = dict(note.ahead)
    late = {t: ahead[t] for t, record in lifecycle.records.items() if t in ahead and record.is_in_log}
    _keep_places(lifecycle, late)
    places = [place.offset for table, place in ahead.items() if table not in late]
    SliceStore(run.store, run.read_offset).set_back(places, ahead)
    run.set_offset_back(note.saved)
    failpoint("engine.rewind.saved")
    forget_note(run.store)
    log.warning("rewind.done", offset=str(note.offset), tables=len(note.tables))


def _keep_places(lifecycle: TableLifecycle, late: Mapping[TableId, Position]) -> None:
    """Have tables that are left in the log begin later where they are now; durable when this returns.

    Else the offset may be set back to where such a table began, which would look as if nothing was read of it since.
    """
    for table, place in late.items():
        pause = lifecycle.records[table].pause
        assert pause is not None
        if pause.base is None or pause.base < place:
            pause.base = place
    if late:
        lifecycle.save()
