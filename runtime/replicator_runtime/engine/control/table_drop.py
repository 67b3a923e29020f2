"""Takes tables that the pipeline does not select any more out of the replicator, and deletes their copies at the target."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from replicator_runtime.engine.control.table_commands import NotDoneError, Work, named, replicates_by_snapshots
from replicator_runtime.engine.control.table_names import find_table
from replicator_runtime.engine.run_state.plugin_contexts import TargetContext
from replicator_sdk.errors import FencedError, NeedsUserError, ReplicatorError
from replicator_sdk.failpoint import failpoint, register

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
    from replicator_runtime.engine.run_state.run import Run
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_sdk import EventConsumer
    from replicator_state import Request

register("engine.drop.before", "engine.drop.deleted", "engine.drop.forgotten")
log = structlog.get_logger()


def drop(lifecycle: TableLifecycle, request: Request) -> Work:
    """`table.drop`: the replicator forgets tables, and unless `keepTarget` is set their copies at the target are deleted.

    A copy is deleted before its table is forgotten, so that after a crash the same request does the rest. A table that it has
    forgotten is left alone by it from then on, also when the pipeline selects it again.

    Raises:
        NeedsUserError: RPL-1220 for an unknown table; RPL-1225 without tables; RPL-1234 for one that the pipeline still selects,
            which the next attempt would copy again; RPL-1236 for one that the target is still to rename.
    """
    known = lifecycle.records
    records = [known[table] for table in dict.fromkeys(find_table(name, known) for name in named(request.arguments))]
    for record in records:
        if record.removed != request.request_id:
            _refuse(lifecycle, record)
    keeps = bool(request.arguments.get("keepTarget"))

    def carry_out() -> None:
        new = [record for record in records if record.removed != request.request_id]
        if new:
            _Drop(lifecycle, request.request_id, keeps_target=keeps).of(new)

    return Work(tuple(_line(record, keeps_target=keeps) for record in records), carry_out)


def _refuse(lifecycle: TableLifecycle, record: TableRecord) -> None:
    if lifecycle.run.pipeline.selection.matches(record.table) is not None:
        again = "" if lifecycle.run.alone else ", start the run again with that file"
        raise NeedsUserError(
            f"`tables` of the pipeline still select {record.table}: it would be copied again",
            code="RPL-1234",
            hint=f"take it out of `tables`, or add an entry of its name with `exclude`{again}, then give the command again",
            table=str(record.table),
        )
    steps = lifecycle.run.table_store.renames
    if any(record.table in {step.former, step.schema.table} for step in steps):
        raise NeedsUserError(
            f"the target is still to rename {record.table}, which the source has renamed",
            code="RPL-1236",
            hint="let `replicator run` do that first, then give the command again",
            table=str(record.table),
        )


def _line(record: TableRecord, *, keeps_target: bool) -> str:
    target = "stays as it is" if keeps_target else "is deleted"
    return f"{record.table} is no table of the replicator any more; its copy at the target {target}"


class _Drop:
    """One request's work.

    Args:
        lifecycle: Of all tables.
        request_id: The request.
        keeps_target: Whether the copies stay.
    """

    def __init__(self, lifecycle: TableLifecycle, request_id: str, *, keeps_target: bool) -> None:
        self._lifecycle = lifecycle
        self._run: Run = lifecycle.run
        self._request_id = request_id
        self._keeps_target = keeps_target

    def of(self, records: Sequence[TableRecord]) -> None:
        """Drop these, one after another; each is durable before the next.

        Raises:
            NotDoneError: RPL-1235 when the target does not delete one; those before it are dropped.
            FencedError: When a newer run took over, or wrote the table; its copy stays.
        """
        if self._keeps_target:
            for record in records:
                self._forget(record)
            return
        consumer: EventConsumer | None = None
        try:
            consumer = self._run.pipeline.target.create_consumer(TargetContext(self._run))
            consumer.start()
            for place, record in enumerate(records):
                self._delete(consumer, record, [done.table for done in records[:place]])
        except FencedError:
            raise
        except ReplicatorError as error:  # the run goes on with the other tables
            raise NotDoneError(_stays(records[0], f"{error.code}: {error.message}", [])) from error
        finally:
            if consumer is not None:
                consumer.stop()

    def _delete(self, consumer: EventConsumer, record: TableRecord, done: Sequence[object]) -> None:
        self._lifecycle.copies.end(record.table)
        self._run.lease.check()
        failpoint("engine.drop.before")
        try:
            why = consumer.delete_table(record.table)
        except FencedError:
            raise
        except ReplicatorError as error:
            why = f"{error.code}: {error.message}"
        if why:
            raise NotDoneError(_stays(record, why, done))
        failpoint("engine.drop.deleted")
        self._forget(record)

    def _forget(self, record: TableRecord) -> None:
        """Durable when this returns. Selected again, it is described and copied, or refused where nothing can copy it."""
        record.pause = None
        self._lifecycle.start_over(record)
        record.released, record.failing_since, record.left_at = False, None, None
        if not replicates_by_snapshots(self._run):
            record.passed_over = True
        record.removed = self._request_id
        self._lifecycle.save()
        self._run.progress.forget_table(record.table)
        log.warning("table.dropped", table=str(record.table), target="kept" if self._keeps_target else "deleted")
        failpoint("engine.drop.forgotten")


def _stays(record: TableRecord, why: str, done: Sequence[object]) -> NeedsUserError:
    before = f"; {', '.join(map(str, done))} before it: dropped" if done else ""
    return NeedsUserError(
        f"the target has not deleted {record.table}, which stays a table of the replicator: {why}{before}",
        code="RPL-1235",
        hint="repair that and give the command again; or give it with --keep-target and delete the copy by hand",
        table=str(record.table),
    )
