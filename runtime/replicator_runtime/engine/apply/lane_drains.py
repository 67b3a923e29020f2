"""Gives the target what is in the lanes of tables that are resumed, beside the stream."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

import structlog

from replicator_runtime.engine.maintenance.table_locks import Held, TableLocks
from replicator_runtime.engine.run_state.error_policy import error_of_table
from replicator_runtime.engine.run_state.plugin_contexts import TargetContext
from replicator_runtime.engine.structure.kept_columns import changes_for_target, event_for_target, without_drops
from replicator_runtime.engine.structure.policy import check_names
from replicator_sdk import BatchConsumer, DDLOperation, DeferredConsumer
from replicator_sdk.errors import BugError, SnapshotNeededError
from replicator_sdk.failpoint import failpoint, register

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from replicator_runtime.engine.apply.active_tables import ActiveTables
    from replicator_runtime.engine.lanes.lane import Lane, LaneStep
    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_sdk import DDLEvent

register("engine.lane.before_step", "engine.lane.after_step", "engine.lane.emptied", "engine.lane.ended")
log = structlog.get_logger()
_WAIT_SECONDS = 0.05


class LaneDrain:
    """The drain of one lane: in a thread and with a consumer of its own, like a copy. It runs once.

    Args:
        lifecycle: Of all tables.
        record: The table, which is to be resumed.
        lane: Its lane; changes that come meanwhile are put at its end.
        locks: Held while the target applies.
        at_once: How many drains share the memory of a batch.

    Attributes:
        is_at_the_end: Whether little or nothing of the lane is left: the table may take its changes to the lane no more.
        is_asking: Whether it ended at a change of structure that an operator is to decide on.
    """

    def __init__(
        self, lifecycle: TableLifecycle, record: TableRecord, lane: Lane, locks: TableLocks, at_once: int = 1
    ) -> None:
        self.record = record
        self.is_at_the_end = self.is_asking = False
        self._lifecycle = lifecycle
        self._run = lifecycle.run
        self._lane = lane
        self._locks = locks
        self._step_bytes = max(1, lifecycle.run.limits.max_bytes // at_once)
        self._stop = threading.Event()
        self._last = threading.Event()

    def stop(self) -> None:
        """End it after the step that is under way."""
        self._stop.set()

    def end_lane(self) -> None:
        """Nothing is put into the lane any more: the drain ends when it is empty."""
        self._last.set()

    @property
    def is_ending(self) -> bool:
        """Whether `end_lane` was called."""
        return self._last.is_set()

    def run(self) -> bool:
        """Give the target all that is in the lane; returns whether that was done (False: stopped, or asking).

        Raises:
            Exception: Why the target, or the store, did not take or give it; with the table.
        """
        try:
            with ExitStack() as opened:
                return self._drain(opened)
        except Exception as error:
            raise error_of_table(error, self.record.table, str(self._lane.end)) from error

    def _drain(self, opened: ExitStack) -> bool:
        limits, run = self._run.limits, self._run
        consumer = run.archive.wrapped(run.pipeline.target.create_consumer(TargetContext(run, self._stop)))
        opened.callback(consumer.stop)
        consumer.start()
        assert isinstance(consumer, BatchConsumer)
        while not (self._stop.is_set() or run.stop.is_set()):
            step = self._lane.next_step(run.generation, run.epoch, limits.max_rows, self._step_bytes)
            if step is not None and self._asks(step):
                self.is_asking = True
                return False
            if step is not None:
                self._apply(consumer, step)
            elif self._last.is_set():
                run.totals.save_soon(at_once=True)  # once the lane is forgotten its files go, and no one counts them
                failpoint("engine.lane.emptied")
                return True
            if self._lane.rows <= limits.max_rows and self._lane.nbytes <= limits.max_bytes:
                self.is_at_the_end = True
            if step is None:
                self._last.wait(_WAIT_SECONDS)
        return False

    def _asks(self, step: LaneStep) -> bool:
        """Whether the step is a change of structure that is not decided."""
        return step.event is not None and any(held.position == step.position for held in self.record.undecided)

    def _apply(self, consumer: BatchConsumer, step: LaneStep) -> None:
        table, lifecycle = self.record.table, self._lifecycle
        failpoint("engine.lane.before_step")
        if step.changes is not None:
            with self._locks.hold({table}, Held.ROWS):
                self._run.letters.apply(consumer, changes_for_target(step.changes, self.record))
            _settle(consumer, step)
            self._run.archive.confirm(table, step.position)
        elif (event := self._event_for_target(step)) is not None:
            with self._locks.hold({table}):
                if event.operation is DDLOperation.TRUNCATE_TABLE:
                    self._run.letters.truncate(consumer, event)
                consumer.apply_ddl(event)
            self._run.totals.add(table, self.record.copy_id, step.position, {"ddl": 1})
        else:
            # The target stays where it is, and the decision is found again should the run end here.
            self._lane.take(step)
            return
        failpoint("engine.lane.after_step")
        self._lane.take(step)
        lifecycle.positions.reached(table, self.record.copy_id, step.position)
        if step.changes is not None:
            counts = dict(zip(("dml.insert", "dml.update", "dml.delete"), step.operations, strict=True))
            self._run.totals.add(table, self.record.copy_id, step.position, counts)
            self._run.progress.applied(table, step.changes.rows, step.changes.source_timestamp)
        self._run.progress.set_lane(table, self._lane.rows, self._lane.nbytes, self._lane.oldest_at)
        lifecycle.progressed(table)

    def _event_for_target(self, step: LaneStep) -> DDLEvent | None:
        """The change of structure as the target gets it; None when it was rejected and nothing is left of it."""
        assert step.event is not None
        check_names(step.event, self.record)
        decision = self.record.decision_at(step.position)
        event = step.event if decision is None or decision.approved else without_drops(step.event)
        return None if event is None else event_for_target(event, self.record)


def _settle(consumer: BatchConsumer, step: LaneStep) -> None:
    """Make the step durable where the consumer commits in its own time."""
    if not isinstance(consumer, DeferredConsumer):
        return
    assert step.changes is not None
    table = step.changes.table
    consumer.settle({table})
    settled = consumer.settled(table)
    if settled is None or settled < step.position:
        raise BugError(
            "the target was to make changes of a lane durable, and says neither that it did nor why not",
            code="RPL-9018",
            table=str(table),
        )


class LaneDrains:
    """The drains of one attempt, several at once: one whose target is slow holds up no other. Used by the engine's main thread.

    Args:
        lifecycle: Of all tables.
        tables: The tables that take changes.
        locks: Held while the target applies.
        settle: Waits until no changes are applied.
    """

    def __init__(
        self, lifecycle: TableLifecycle, tables: ActiveTables, locks: TableLocks, settle: Callable[[], None]
    ) -> None:
        self._lifecycle = lifecycle
        self._tables = tables
        self._locks = locks
        self._settle = settle
        self._at_once = lifecycle.run.limits.parallel_tables
        self._pool = ThreadPoolExecutor(self._at_once, thread_name_prefix="drain")  # starts threads when used
        self._drains: list[tuple[LaneDrain, Future[bool]]] = []
        self._waiting: list[LaneDrain] = []

    @property
    def running(self) -> bool:
        """Whether any is not done, or `poll` has not seen yet that it is."""
        return bool(self._drains or self._waiting)

    def start(self) -> None:
        """Begin the drains of all tables that are to be resumed; of one that is counted again once that is done."""
        lanes, records = self._tables.lanes, self._lifecycle.records.values()
        resumed = [r for r in records if r.pause is not None and r.pause.resuming and r.table in lanes]
        at_once = min(self._at_once, len(resumed))
        for record in resumed:
            self._waiting.append(LaneDrain(self._lifecycle, record, lanes[record.table], self._locks, at_once))
        self._begin_waiting()

    def _begin_waiting(self) -> None:
        """Begin those whose table has no change before its lane that is still to be counted: a count goes up to one position."""
        marks = self._tables.watermarks
        for drain in list(self._waiting):
            mark = marks.get(drain.record.table)
            if mark is None or mark.recount is None:
                self._lifecycle.run.totals.save()  # what the target has of a lane is counted from there after a kill
                self._waiting.remove(drain)
                self._drains.append((drain, self._pool.submit(drain.run)))

    def poll(self) -> bool:
        """See how far they are. A table of whose lane little is left takes changes no more, until it joins.

        Returns:
            Whether a table is to join now.

        Raises:
            Rejoin: When a table is to be copied again.
            Exception: What concerns more than one table.
        """
        joins = False
        self._begin_waiting()
        for drain, future in list(self._drains):
            if future.done():
                self._drains.remove((drain, future))
                joins |= self._ended(drain, future)
            elif drain.record.table not in self._tables.watermarks and not drain.is_ending:
                drain.stop()  # its table failed, or its lane was dropped
            elif drain.is_at_the_end and not drain.is_ending:
                self._settle()
                self._tables.release(drain.record.table)
                drain.end_lane()
        return joins

    def _ended(self, drain: LaneDrain, future: Future[bool]) -> bool:
        error, record = future.exception(), drain.record
        if isinstance(error, Exception) and record.fails_in_lane and not isinstance(error, SnapshotNeededError):
            self._lifecycle.fail_lane(record, error)
            return drain.is_ending  # only another attempt puts its changes into the lane again
        if isinstance(error, Exception):
            self._tables.failed(record.table, error)
        elif error is not None:
            raise error
        elif drain.is_asking:
            self._lifecycle.stop_resuming(record)
            return True
        elif future.result():
            self._lifecycle.end_lane(record)
            failpoint("engine.lane.ended")
            log.info("table.resumed", table=str(record.table))
            return True
        return False

    def close(self) -> None:
        """End all after the step that is under way, and wait for them."""
        for drain, future in self._drains:
            drain.stop()
            future.cancel()
        self._pool.shutdown(wait=True)
