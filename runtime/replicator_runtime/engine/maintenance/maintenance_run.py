"""Maintenance by itself: for tables of a pipeline that is not running, in a run of its own that reads no source."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from replicator_runtime.config.selection import glob_matches
from replicator_runtime.engine.lifecycle.restored_tables import may_lack_letters
from replicator_runtime.engine.maintenance.maintenance import Maintenance, Step
from replicator_runtime.engine.run_state.open_run import check_user, has_run, keeping_lease, open_run
from replicator_runtime.engine.run_state.plugin_contexts import TargetContext
from replicator_runtime.engine.tables.rewind_note import refuse_unfinished
from replicator_runtime.spelling import did_you_mean
from replicator_sdk.errors import ConfigError, ReplicatorError

if TYPE_CHECKING:
    import threading
    from collections.abc import Collection, Sequence

    from replicator_runtime.config import Pipeline
    from replicator_runtime.engine.run_state.progress import Progress
    from replicator_runtime.engine.run_state.run import Run
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_sdk import MaintenanceReport, MaintenanceTask, TableId, TableReader

NO_SUCH_TABLE = "RPL-1203"
NO_SUCH_TASK = "RPL-1204"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which maintenance is to be done.

    Attributes:
        tables: Names or patterns of tables, as `table` or `schema.table`; all tables when empty.
        tasks: Names of the target's tasks; all tasks when empty.
        also_early: Whether also what is not due yet.
    """

    tables: Collection[str] = ()
    tasks: Collection[str] = ()
    also_early: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was done to one table.

    Attributes:
        table: The table.
        task: The task.
        seconds: How long all steps took.
        first: The report of the first step; None when it failed.
        last: The report of the last step; None when it failed.
        error: Why the last step failed; None when it did not.
    """

    table: TableId
    task: str
    seconds: float
    first: MaintenanceReport | None
    last: MaintenanceReport | None
    error: Exception | None


def run_maintenance(
    pipeline: Pipeline, wanted: Wanted, *, stop: threading.Event | None = None, progress: Progress | None = None
) -> list[Outcome]:
    """Take the lease, do what is wanted, and release it. A task that fails does not keep the others from being done.

    Of a pipeline that has never run there is nothing to do, and nothing is written.

    Args:
        pipeline: Whose tables.
        wanted: What.
        stop: Set it to end after the step under way; what is done by then is returned.
        progress: Where to report.

    Raises:
        ConfigError: RPL-1203 or RPL-1204 when no table or task has such a name.
        ReplicatorError: RPL-1278 when a rewind is not finished; RPL-7130 when a run has the lease, which does the maintenance itself; RPL-7106 for root where the state
            is another user's.
    """
    if not has_run(pipeline):  # its state folder is not created for nothing, nor a lease in it
        _chosen_tables((), wanted.tables)
        _chosen_tasks(pipeline.target.maintenance_tasks, wanted.tasks)
        return []
    check_user(pipeline)
    with open_run(pipeline, stop, progress) as run, keeping_lease(run):
        try:
            refuse_unfinished(run.store)
            return _Work(run, wanted).run()
        finally:
            run.spark.stop()


class _Work:
    """What is wanted, in one run."""

    def __init__(self, run: Run, wanted: Wanted) -> None:
        self._run = run
        self._maintenance = Maintenance(run)
        run.table_store.load()
        self._tables = _chosen_tables(run.table_store.records.values(), wanted.tables)
        self._tasks = _chosen_tasks(run.pipeline.target.maintenance_tasks, wanted.tasks)
        self._also_early = wanted.also_early

    def run(self) -> list[Outcome]:
        """Do it, table by table."""
        pairs = [(table, task) for table in self._tables for task in self._tasks if self._is_wanted(table, task)]
        left = self._left_alone({table for table, _ in pairs})
        try:
            return [self._run_steps(*pair) for pair in pairs if pair[0] not in left and not self._run.stop.is_set()]
        finally:
            self._maintenance.times.save()

    def _is_wanted(self, table: TableId, task: MaintenanceTask) -> bool:
        return self._also_early or self._maintenance.times.due_at(table, task) <= time.time()

    def _left_alone(self, tables: set[TableId]) -> set[TableId]:
        """Tables that a run wrote last which the state does not know: the next run is to find that. The others may be written from now on."""
        run, records = self._run, self._run.table_store.records
        reader: TableReader | None = run.pipeline.target.create_table_reader(TargetContext(run))
        left = {table for table in tables if reader is not None and self._is_unknown(reader, records[table])}
        run.known_runs.add_copies([records[table].copy_id for table in tables - left])  # commits have this run's epoch
        return left

    def _is_unknown(self, reader: TableReader, record: TableRecord) -> bool:
        try:
            progress = reader.progress(record.table) if self._run.letters.may_have(record.copy_id) else None
        except ReplicatorError:
            return False  # what is wrong with the table, its own steps say
        return progress is not None and may_lack_letters(self._run, record, progress)

    def _run_steps(self, table: TableId, task: MaintenanceTask) -> Outcome:
        began, step = time.monotonic(), Step(table, task)
        first = last = self._maintenance.run_step(step)
        while last is not None and not last.is_finished and not self._run.stop.is_set():
            last = self._maintenance.run_step(step)
        error = self._maintenance.errors.get((table, task.name))
        return Outcome(table, task.name, time.monotonic() - began, first, last, error)


def _chosen_tables(records: Collection[TableRecord], patterns: Collection[str]) -> list[TableId]:
    """The tables that the target has and that fit a pattern."""
    there = sorted(record.table for record in records if record.dropping is None and _is_there(record))
    for pattern in patterns:
        if not any(_fits(pattern, table) for table in there):
            raise ConfigError(
                f'no replicated table fits "{pattern}"',
                code=NO_SUCH_TABLE,
                hint=f"`replicator status` lists the tables; {did_you_mean(pattern, map(str, there))}",
            )
    return [table for table in there if not patterns or any(_fits(pattern, table) for pattern in patterns)]


def _is_there(record: TableRecord) -> bool:
    return record.created or (record.snapshot is not None and record.snapshot.done)


def _fits(pattern: str, table: TableId) -> bool:
    return glob_matches(pattern, table.table) or glob_matches(pattern, str(table))


def _chosen_tasks(tasks: Sequence[MaintenanceTask], names: Collection[str]) -> list[MaintenanceTask]:
    known = [task.name for task in tasks]
    for name in names:
        if name not in known:
            raise ConfigError(
                f'the target has no task "{name}", or its interval is 0',
                code=NO_SUCH_TASK,
                hint=f"the target's page names its tasks; {did_you_mean(name, known)}",
            )
    return [task for task in tasks if not names or task.name in names]
