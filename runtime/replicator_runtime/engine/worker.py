"""Runs a pipeline: takes the lease, makes attempts until the end, and decides what follows each error."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from replicator_runtime.engine.archive.archive import ChangeArchive
from replicator_runtime.engine.attempt import Attempt
from replicator_runtime.engine.control.control import Control
from replicator_runtime.engine.control.only_copied import end_after_copy, refuse_after_copy
from replicator_runtime.engine.control.pause import stored_pause
from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
from replicator_runtime.engine.maintenance.maintenance import Maintenance
from replicator_runtime.engine.planning.approvals import Approvals
from replicator_runtime.engine.planning.planner import plan_of_run
from replicator_runtime.engine.repair.command import REPAIRS
from replicator_runtime.engine.rewind.rewind import finish_rewind
from replicator_runtime.engine.run_state.attempt_end import PlanOutOfDate, Rejoin, SnapshotsStopped
from replicator_runtime.engine.run_state.error_policy import (
    Verdict,
    as_replicator_error,
    fit_next_step,
    java_ended,
    verdict,
)
from replicator_runtime.engine.run_state.open_run import delete_former_rows, keeping_lease, open_run
from replicator_runtime.engine.run_state.request_watch import watching_requests
from replicator_runtime.engine.run_state.retry_budget import RetryBudget
from replicator_runtime.engine.run_state.spark_handle import SparkHandle
from replicator_runtime.engine.run_state.status import StatusWriter
from replicator_runtime.engine.run_state.unknown_errors import REPEATED, summary, unexpected, without_values
from replicator_runtime.engine.schedule.freshness import measuring_freshness
from replicator_runtime.engine.schedule.lineage import publishing_lineage
from replicator_runtime.engine.schedule.notifying import Notices
from replicator_runtime.engine.schedule.regular_verification import verifying
from replicator_runtime.engine.schedule.schedule import VERIFY_EVERY, verify_every
from replicator_runtime.engine.snapshot.snapshots import Snapshots
from replicator_runtime.engine.tables.table_state import TableState
from replicator_runtime.engine.watching.source_watch import watching_source
from replicator_runtime.observability.logs import get_kept_logger
from replicator_runtime.observability.redaction import redact
from replicator_runtime.setting_edits import settings_edits, store_settings
from replicator_sdk.authoring.stored_form import release
from replicator_sdk.discovery.assessment import Severity
from replicator_sdk.errors import FencedError, NeedsUserError, ReplicatorError
from replicator_state import check_identity

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from replicator_runtime.config import Pipeline
    from replicator_runtime.engine.run_state.progress import Progress
    from replicator_runtime.engine.run_state.run import Run
    from replicator_sdk import Offset, TableId

log = structlog.get_logger()
_LOOK_SECONDS = 0.5
_PAUSED_SECONDS = 60.0
_COMMAND_SECONDS = 3.0
"""A command of an operator has the lease for a moment, which is no reason for a run not to start."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended that did not fail.

    Attributes:
        run_id: Its id.
        reached_goal: Whether everything committed at the source before the start is durable at the target; False when
            it was stopped before.
        offset: The last saved offset, as text.
        sequence_number: The sequence number there.
    """

    run_id: str
    reached_goal: bool
    offset: str
    sequence_number: int


def run(
    pipeline: Pipeline,
    *,
    until_current: bool = False,
    stop: threading.Event | None = None,
    progress: Progress | None = None,
    began: Callable[[Run], None] | None = None,
    spark: SparkHandle | None = None,
) -> RunResult:
    """Run a pipeline in this process and thread until it is to stop.

    Args:
        pipeline: What to run.
        until_current: Stop once everything committed at the source before the call is durable at the target.
        stop: Set it to stop: what is gathered is applied and saved first.
        progress: Where to report; readable from other threads meanwhile.
        began: Called with the run once it has the lease.
        spark: The run's Spark session, which the caller may have begun; stopped at the end.

    Raises:
        ReplicatorError: When the run cannot go on; nothing is lost, a later run continues.
    """
    only = pipeline.config.snapshot.mode == "only"
    spark = spark or SparkHandle(pipeline)
    try:
        with open_run(pipeline, stop, progress, wait_seconds=_COMMAND_SECONDS, spark=spark) as started:
            if began is not None:
                began(started)
            return _run(started, until_current=until_current or only)
    finally:
        spark.stop()


def _run(run: Run, *, until_current: bool) -> RunResult:
    lifecycle = TableLifecycle(run)
    status, notices = StatusWriter(run), Notices(run)
    notices.start()
    status.start()
    get_kept_logger().info("run.began", epoch=run.epoch, generation=run.generation, release=release())
    error: BaseException | None = None
    try:
        with (
            keeping_lease(run),
            watching_requests(run),
            watching_source(run),
            measuring_freshness(run),
            publishing_lineage(run),
        ):
            refuse_after_copy(run)
            with nullcontext() if until_current else verifying(run):
                reached = _Attempts(lifecycle, until_current=until_current).run()
            _raise_failing(lifecycle, reached=reached)
            if reached and run.config.snapshot.mode == "only":
                end_after_copy(run)
        run.progress.set_phase("done")
        return RunResult(run.run_id, reached, str(run.saved_offset or ""), run.saved_sequence)
    except Exception as failure:
        error = failure
        fit_next_step(failure, run.pipeline.source)
        run.progress.set_phase("failed", redact(summary(failure)))
        raise
    finally:
        status.close(error)
        notices.close(error)
        run.spark.stop()
        _log_end(run, error)


def _log_end(run: Run, error: BaseException | None) -> None:
    """Into the kept log only: `replicator run` itself ends with the same."""
    if isinstance(error, ReplicatorError):
        get_kept_logger().error("run.failed", error=redact(error.message), code=error.code, hint=error.hint)
    elif error is not None:
        get_kept_logger().error("run.failed", error=redact(summary(error)))
    else:
        get_kept_logger().info("run.ended", position=str(run.saved_offset or ""), sequence=run.saved_sequence)


def _raise_failing(lifecycle: TableLifecycle, *, reached: bool) -> None:
    """Raise the error of a table that a bounded run leaves failing; an endless run has shown it in its progress."""
    errors = lifecycle.stopped or lifecycle.lane_errors or lifecycle.missing
    if reached and errors:
        raise as_replicator_error(next(iter(errors.values())))


class _Attempts:
    """Attempt after attempt until the goal, a stop, or an error that ends the run. Used by the engine's main thread.

    Args:
        lifecycle: Of all tables.
        until_current: Whether to stop once everything committed at the source by now is durable at the target.
    """

    def __init__(self, lifecycle: TableLifecycle, *, until_current: bool) -> None:
        self._lifecycle = lifecycle
        self._run = lifecycle.run
        if self._run.config.archive is not None:
            self._run.archive = ChangeArchive(self._run, self._run.archive_stage)
        self._until_current = until_current
        self._budget = RetryBudget(self._run.config.retries)
        self._snapshots = Snapshots(lifecycle)
        self._maintenance = Maintenance(self._run)
        self._control = Control(lifecycle, {**REPAIRS, VERIFY_EVERY: verify_every})
        self._identified = False
        self._plans_again = self._has_planned_again = False
        self._streamed: tuple[Offset | None, int] = (None, 0)
        self._copied = 0
        self._goal: Offset | None = None
        self._stopped_before: frozenset[TableId] = frozenset()
        """The tables that had stopped when the attempt began."""

    def run(self) -> bool:
        """Returns whether the goal was reached (False: stopped).

        Raises:
            Exception: What ends the run.
        """
        try:
            reached = self._run_attempts()
        finally:
            self._snapshots.close()
        if reached:
            self._maintain()
        return reached

    def _maintain(self) -> None:
        """Do what maintenance is due, for a bounded time: runs may be shorter than its intervals."""
        working = [
            r.table for r in self._lifecycle.records.values() if r.selected and r.state is TableState.REPLICATING
        ]
        try:
            self._maintenance.run_due(working, self._run.config.maintenance.max_seconds_at_end)
        finally:
            self._maintenance.times.save()

    def _run_attempts(self) -> bool:
        run = self._run
        while not run.stop.is_set():
            try:
                if not self._begin():
                    return False
                Attempt(self._lifecycle, self._snapshots, self._maintenance, self._goal).run()
            except Rejoin:
                log.info("run.rejoin")
            except PlanOutOfDate as signal:
                log.warning("run.plans_again", why="the source was altered after the plan was accepted")
                if self._has_planned_again:
                    self._after(signal)  # with a delay that grows
                self._plans_again = self._has_planned_again = True
            except SnapshotsStopped:
                return False
            except Exception as error:  # noqa: BLE001 - the policy decides
                if run.stop.is_set():
                    log.warning("run.error_while_stopping", error=summary(error))
                    return False
                self._note_progress()
                self._after(error)
            else:
                reached = self._goal is not None and not run.stop.is_set()
                if reached:
                    run.progress.read(True, -1)
                return reached
        return False

    def _note_progress(self) -> None:
        """Renew the budget if the stream went forward since the last error; copies go on beside it, and only keep the run."""
        progress = self._run.progress
        streamed, copied = (self._run.saved_offset, progress.applied_rows), progress.copied_rows
        if streamed != self._streamed:
            self._budget.progressed()
        elif copied != self._copied:
            self._budget.extend()
        self._streamed, self._copied = streamed, copied

    def _begin(self) -> bool:
        """Read what is stored, refuse a source that it does not belong to, do what operators ask for, and find the source's end.

        Returns:
            False when the run is to stop.
        """
        source = self._run.pipeline.source
        if not self._identified:
            self._log_edits()
        self._run.load_offset()
        self._lifecycle.load()
        self._run.totals.load()
        if not self._identified:
            self._lifecycle.show_stored()
            self._maintenance.times.forget_others(self._lifecycle.records)
            self._maintenance.show_stored()
            check_identity(self._run.store, source.identity())
            finish_rewind(self._lifecycle)
            self._accept_edits()
            store_settings(self._run.pipeline, self._run.store)
            delete_former_rows(self._run)
            self._identified = True
        self._carry_out_requests()
        if not self._goes_on():
            return False
        if self._until_current and self._goal is None:
            self._goal = source.latest_offset()
        self._run.progress.source_error = None
        self._stopped_before = frozenset(self._lifecycle.stopped)
        return True

    def _goes_on(self) -> bool:
        """Wait while it is paused, and do what else operators ask for; copies end, and begin again afterwards.

        What follows from edits is decided again after the wait, or when it is more than was accepted: the source may have been altered meanwhile.

        Returns:
            False when the run is to stop.

        Raises:
            NeedsUserError: RPL-1247 for a bounded run.
            SchemaDriftError: As `Approvals.accept`.
        """
        run, has_waited = self._run, False
        while not run.stop.is_set() and (found := stored_pause(run.store)) is not None:
            self._snapshots.end_all()
            run.spark.stop_unasked()
            if self._until_current:
                raise NeedsUserError(
                    f"the replicator is {found}", code="RPL-1247", hint="`replicator resume NAME` lets it go on"
                )
            run.progress.set_phase(
                "paused", f"by {found.by} since {found.since}; `replicator resume NAME` lets it go on"
            )
            self._wait(_PAUSED_SECONDS)
            self._carry_out_requests()
            has_waited = True
        if (has_waited or self._plans_again) and not run.stop.is_set():
            self._accept_edits()
            self._plans_again = False
        return not run.stop.is_set()

    def _carry_out_requests(self) -> None:
        """Do what operators ask for; what cannot be done now is tried again later, and holds up no data."""
        try:
            self._control.carry_out()
        except FencedError:
            raise
        except Exception as error:  # noqa: BLE001 - the store of requests is away, say
            log.warning("request.failed", error=summary(error))

    def _log_edits(self) -> None:
        """Say what follows from the settings that were edited since the last run, before anything does."""
        for end, findings in settings_edits(self._run.pipeline, self._run.store).items():
            for found in findings:
                write = log.warning if found.severity is not Severity.INFO else log.info
                write("setting.edited", end=end, what=found.description, impact=found.impact, code=found.code)

    def _accept_edits(self) -> None:
        """Go on only where what follows from edits of the pipeline since the last run is harmless, or approved."""
        run, plan = self._run, plan_of_run(self._run)
        Approvals(run.store, run.requests).accept(plan, run.config)
        run.accepted_copies = plan.copied_again

    def _after(self, error: Exception) -> None:
        """Wait before the next attempt, stop one table, or give up."""
        run = self._run
        isolate = run.config.on_table_error == "isolate"
        if run.spark.is_dead:
            self._snapshots.end_all()  # they use the session that has ended
        if run.spark.drop_dead() and not isinstance(error, FencedError):
            error = java_ended(error)
        if verdict(error, isolate=isolate) is not Verdict.RETRY:
            error = self._fenced() or error
        decided = verdict(error, isolate=isolate)
        if decided is Verdict.TABLE and self._stop_named_table(error):
            return
        self._lifecycle.record_lost_history(error)
        delay = self._budget.next_delay() if decided is Verdict.RETRY else None
        times = self._budget.attempts
        without_values(error)
        shown = error if isinstance(error, ReplicatorError) else unexpected(error, times)
        run.progress.source_error = run.progress.retried_error = shown
        run.failed(None, shown, retried_in=delay)
        if delay is None:
            raise as_replicator_error(error)
        run.progress.set_phase("retrying", str(shown))
        write = log.error if shown is not error and times >= REPEATED else log.warning
        write("run.retry", code=shown.code, error=str(shown), attempt=times, seconds=round(delay, 1))
        if shown is not error:
            log.debug("run.unexpected", exc_info=error)
        self._wait(delay)

    def _fenced(self) -> FencedError | None:
        """That a newer run took over: what it does at the source, a deletion say, looks like lost history to this one."""
        try:
            self._run.lease.check()
        except FencedError as fenced:
            return fenced
        except ReplicatorError:
            return None  # the state is away, too
        return None

    def _wait(self, seconds: float) -> None:
        """Wait, but not while the run is to stop or an operator asks for something."""
        until = time.monotonic() + seconds
        while not self._run.requested.is_set() and (left := until - time.monotonic()) > 0:
            if self._run.stop.wait(min(_LOOK_SECONDS, left)):
                return

    def _stop_named_table(self, error: Exception) -> bool:
        """Stop the table that the error names; False when that would leave none, or it had stopped before the attempt began.

        The source's end is asked for again: it may have been in a part of the log that went with the table's.
        """
        records, stopped = self._lifecycle.records.values(), self._lifecycle.stopped
        named = (r for r in records if r.selected or r.gone or r.table in stopped)
        record = next((r for r in named if str(r.table) == getattr(error, "table", None)), None)
        if record is None or record.table in self._stopped_before:
            return False
        self._lifecycle.stop(record, error)
        self._goal = None
        return any((r.selected or r.gone) and r.table not in stopped for r in records)
