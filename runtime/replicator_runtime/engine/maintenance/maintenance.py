"""Chooses the table and the task of maintenance that are due most, has the target do one step, and notes the outcome."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from replicator_runtime.engine.maintenance.agenda import Agenda
from replicator_runtime.engine.maintenance.due_times import DueTimes
from replicator_runtime.engine.maintenance.table_locks import TableLocks
from replicator_runtime.engine.run_state.plugin_contexts import TargetContext
from replicator_runtime.engine.run_state.unknown_errors import summary
from replicator_runtime.observability.redaction import redact
from replicator_sdk.errors import FencedError
from replicator_sdk.failpoint import failpoint, register

if TYPE_CHECKING:
    from collections.abc import Collection

    from replicator_runtime.engine.maintenance.due_times import TaskTimes
    from replicator_runtime.engine.run_state.run import Run
    from replicator_sdk import MaintenanceReport, MaintenanceTask, TableId

register("engine.maintenance.before", "engine.maintenance.after")
log = structlog.get_logger()
_LOOK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Step:
    """One step of maintenance that is due.

    Attributes:
        table: Of which table.
        task: Of which task.
        late_seconds: How long it has been due.
    """

    table: TableId
    task: MaintenanceTask
    late_seconds: float = 0.0


class Maintenance:
    """The maintenance of one run. `run_step` is called by one thread at a time, everything else by the engine's main thread.

    Args:
        run: The run.

    Attributes:
        locks: Held by what applies to a table, and by steps that hold its applies.
        times: When which table had which task.
        errors: The last error of each table and task that has failed since it was done; in this run.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._tasks = tuple(run.pipeline.target.maintenance_tasks)
        self._looked_at = float("-inf")
        self.locks = TableLocks()
        self.times = DueTimes(run.store)
        self._agenda = Agenda(self.times, self._tasks)
        self.errors: dict[tuple[TableId, str], Exception] = {}

    def show_stored(self) -> None:
        """Show in the status what earlier runs did."""
        for (table, task), times in self.times.known().items():
            self._show(table, task, times)

    def next_step(self, tables: Collection[TableId], busy: Collection[TableId] = ()) -> Step | None:
        """The step that has been due longest; None when none is. After an answer of None the next second's is None, too.

        Args:
            tables: The tables that may be maintained.
            busy: Those of them with changes that wait; another table comes first until they are half an interval late.
        """
        if not self._tasks or time.monotonic() - self._looked_at < _LOOK_SECONDS:
            return None
        now = time.time()
        late = [Step(*pair, now - at) for at, pair in self._agenda.late(tables, now)]
        if not late:
            self._looked_at = time.monotonic()
            return None
        return max(late, key=lambda s: s.late_seconds - (s.task.interval_seconds / 2 if s.table in busy else 0))

    def run_step(self, step: Step) -> MaintenanceReport | None:
        """Have the target do `step`; None when it failed, which concerns this task of this table only.

        Raises:
            FencedError: When a newer run has taken the table over.
        """
        target, metrics, began = self._run.pipeline.target, self._run.metrics, time.monotonic()
        try:
            failpoint("engine.maintenance.before")
            report = target.maintain_table(TargetContext(self._run), step.task, step.table)
            failpoint("engine.maintenance.after")
        except FencedError:
            raise
        except Exception as error:  # noqa: BLE001 - maintenance changes no rows, so its failure must not end the run
            self._failed(step, error)
            return None
        metrics.count("maintenance.steps", table=step.table)
        metrics.count("maintenance.milliseconds", round(1000 * (time.monotonic() - began)), table=step.table)
        self.errors.pop((step.table, step.task.name), None)
        if report.is_finished:
            self._show(step.table, step.task.name, self.times.done(step.table, step.task.name))
            self._agenda.changed(step.table, step.task)
        if report.has_changed:
            _log_done(step, report, time.monotonic() - began)
        return report

    def run_due(self, tables: Collection[TableId], seconds: float) -> None:
        """Do what is due, step after step, until nothing is, `seconds` have passed or the run is to stop.

        Nothing may be applied meanwhile. What is left stays due.

        Raises:
            FencedError: As `run_step`.
        """
        until = time.monotonic() + seconds
        self._looked_at = float("-inf")
        self._agenda.forget()
        while time.monotonic() < until and not self._run.stop.is_set():
            step = self.next_step(tables)
            if step is None:
                return
            self._run.progress.set_phase("maintenance")
            self.run_step(step)

    def _failed(self, step: Step, error: Exception) -> None:
        self.errors[step.table, step.task.name] = error
        times = self.times.failed(step.table, step.task.name, redact(summary(error)))
        self._agenda.changed(step.table, step.task)
        self._show(step.table, step.task.name, times)
        self._run.metrics.count("maintenance.failed", table=step.table)
        log.warning(
            "maintenance.failed",
            table=str(step.table),
            task=step.task.name,
            code=getattr(error, "code", ""),
            error=times.error,
            failures=times.failures,
        )

    def _show(self, table: TableId, task: str, times: TaskTimes) -> None:
        self._run.progress.maintained(table, task, times.done_at, times.error)


def _log_done(step: Step, report: MaintenanceReport, seconds: float) -> None:
    log.info(
        "maintenance.done",
        table=str(step.table),
        task=step.task.name,
        files_before=report.files_before,
        files_after=report.files_after,
        seconds=round(seconds, 1),
    )
