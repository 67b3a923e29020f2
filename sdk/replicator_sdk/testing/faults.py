"""Scripted faults: what a target does wrong, at which call, decided by the test and not by chance.

    script = FaultScript()
    script.on("apply_batch", None, FailAfterWrite())  # the first goes well, the second is written but its answer lost
    target = FaultyTarget(MemoryTarget(config), script)

Operations are the names of `EventConsumer`, `BatchConsumer` and `SnapshotLoader` methods, and `maintain`.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from replicator_sdk.batch import TableChanges
from replicator_sdk.context import Configurer, DeltaTargetContext
from replicator_sdk.discovery.assessment import TableAssessor
from replicator_sdk.discovery.maintenance import MaintenanceReport, MaintenanceTask
from replicator_sdk.errors import BugError, RetryableError
from replicator_sdk.event import DDLEvent, DMLEvent
from replicator_sdk.offset import Position
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.snapshot import ChunkReader, SnapshotChunk
from replicator_sdk.target import (
    BatchConsumer,
    DeferredConsumer,
    DeltaTarget,
    EventConsumer,
    SnapshotLoader,
    TableProgress,
)

Result = TypeVar("Result")

OPERATIONS = frozenset(
    [
        "start",
        "apply_ddl",
        "apply_dml",
        "flush",
        "stop",
        "progress",
        "apply_batch",
        "settle",
        "begin_snapshot",
        "load_chunks",
        "finish_snapshot",
        "load_whole",
        "maintain",
    ]
)


def _lost() -> Exception:
    return RetryableError("a scripted fault", code="RPL-9109", hint="asked for by a test")


@dataclass(frozen=True)
class Reject:
    """The call fails and does nothing."""

    error: Callable[[], Exception] = _lost


@dataclass(frozen=True)
class FailAfterWrite:
    """The call does its work and then fails: the answer is lost."""

    error: Callable[[], Exception] = _lost


@dataclass(frozen=True)
class Slow:
    """The call takes longer."""

    seconds: float


@dataclass(frozen=True)
class Hold:
    """The call waits before it does anything; `entered` is set when it got there, set `release` to let it go on."""

    entered: threading.Event = field(default_factory=threading.Event)
    release: threading.Event = field(default_factory=threading.Event)
    timeout: float = 60.0


Fault = Reject | FailAfterWrite | Slow | Hold


class FaultScript:
    """Faults for the next calls of each operation, in order; used by any thread.

    Attributes:
        calls: Every operation called, in order.
    """

    def __init__(self) -> None:
        self.calls: list[str] = []
        self._queues: dict[str, deque[Fault | None]] = defaultdict(deque)
        self._lock = threading.Lock()

    def on(self, operation: str, *faults: Fault | None) -> None:
        """Let the next calls of `operation` go as `faults` say; None is a call that goes well.

        Raises:
            ValueError: When there is no such operation.
        """
        if operation not in OPERATIONS:
            raise ValueError(f"{operation!r} is none of {sorted(OPERATIONS)}")
        with self._lock:
            self._queues[operation].extend(faults)

    @property
    def exhausted(self) -> bool:
        """Whether every scripted fault has happened."""
        with self._lock:
            return not any(self._queues.values())

    def run(self, operation: str, call: Callable[[], Result]) -> Result:
        """Make one call as the script wants it."""
        with self._lock:
            self.calls.append(operation)
            queue = self._queues[operation]
            fault = queue.popleft() if queue else None
        if isinstance(fault, Reject):
            raise fault.error()
        if isinstance(fault, Slow):
            time.sleep(fault.seconds)
        if isinstance(fault, Hold):
            fault.entered.set()
            if not fault.release.wait(fault.timeout):
                raise BugError(f"the test did not release a held {operation}", code="RPL-9115")
        result = call()
        if isinstance(fault, FailAfterWrite):
            raise fault.error()
        return result


class FaultyTarget(DeltaTarget):
    """A target whose consumers follow a script; as capable as the one it wraps."""

    name = "faulty"

    def __init__(self, target: DeltaTarget, script: FaultScript) -> None:
        super().__init__(target.config)
        self._target = target
        self._script = script

    def configure(self, configurer: Configurer) -> None:
        """As the wrapped target."""
        self._target.configure(configurer)

    def create_table_assessor(self) -> TableAssessor:
        """The wrapped target's."""
        return self._target.create_table_assessor()

    def create_consumer(self, context: DeltaTargetContext) -> EventConsumer:
        """A wrapped consumer; its powers are those of the wrapped target's consumer."""
        return faulty(self._target.create_consumer(context), self._script)

    @property
    def maintenance_tasks(self) -> Sequence[MaintenanceTask]:
        """As the wrapped target."""
        return self._target.maintenance_tasks

    def maintain_table(self, context: DeltaTargetContext, task: MaintenanceTask, table: TableId) -> MaintenanceReport:
        """As the wrapped target, at the step `maintain` of the script."""
        return self._script.run("maintain", lambda: self._target.maintain_table(context, task, table))


def faulty(consumer: EventConsumer, script: FaultScript) -> EventConsumer:
    """A consumer that follows a script."""
    if isinstance(consumer, DeferredConsumer) and isinstance(consumer, SnapshotLoader):
        return _FaultyDeferredLoader(consumer, script)
    if isinstance(consumer, BatchConsumer) and isinstance(consumer, SnapshotLoader):
        return _FaultyLoader(consumer, script)
    if isinstance(consumer, BatchConsumer):
        return _FaultyBatchConsumer(consumer, script)
    return _FaultyConsumer(consumer, script)


class _FaultyConsumer(EventConsumer):
    """Applies one event, for consumers that take rows one by one."""

    def __init__(self, consumer: EventConsumer, script: FaultScript) -> None:
        self._consumer = consumer
        self._script = script
        self.follows_databases = consumer.follows_databases  # type: ignore[misc]  # the wrapped one's

    def start(self) -> None:
        self._script.run("start", self._consumer.start)

    def apply_ddl(self, event: DDLEvent) -> None:
        self._script.run("apply_ddl", lambda: self._consumer.apply_ddl(event))

    def can_rename(self, former: TableId, table: TableId) -> bool:
        return self._consumer.can_rename(former, table)

    def apply_dml(self, event: DMLEvent) -> None:
        self._script.run("apply_dml", lambda: self._consumer.apply_dml(event))

    def flush(self) -> None:
        self._script.run("flush", self._consumer.flush)

    def stop(self) -> None:
        self._script.run("stop", self._consumer.stop)


class _FaultyBatchConsumer(_FaultyConsumer, BatchConsumer):
    """Whole batches."""

    def __init__(self, consumer: BatchConsumer, script: FaultScript) -> None:
        super().__init__(consumer, script)
        self._batches = consumer

    def progress(self, table: TableId) -> TableProgress | None:
        return self._script.run("progress", lambda: self._batches.progress(table))

    def apply_batch(self, changes: TableChanges) -> None:
        self._script.run("apply_batch", lambda: self._batches.apply_batch(changes))


class _FaultyLoader(_FaultyBatchConsumer, SnapshotLoader):
    """Whole batches and snapshots."""

    def __init__(self, consumer: BatchConsumer, script: FaultScript) -> None:
        super().__init__(consumer, script)
        if not isinstance(consumer, SnapshotLoader):
            raise TypeError("the consumer loads no snapshots")
        self._loader: SnapshotLoader = consumer

    def begin_snapshot(self, schema: TableSchema, snapshot_id: str, position: Position) -> frozenset[int]:
        return self._script.run("begin_snapshot", lambda: self._loader.begin_snapshot(schema, snapshot_id, position))

    def load_chunks(
        self, schema: TableSchema, snapshot_id: str, chunks: Sequence[SnapshotChunk], read: ChunkReader
    ) -> int:
        return self._script.run("load_chunks", lambda: self._loader.load_chunks(schema, snapshot_id, chunks, read))

    def finish_snapshot(self, schema: TableSchema, snapshot_id: str, position: Position) -> None:
        self._script.run("finish_snapshot", lambda: self._loader.finish_snapshot(schema, snapshot_id, position))

    def load_whole(
        self,
        schema: TableSchema,
        snapshot_id: str,
        position: Position,
        chunks: Sequence[SnapshotChunk],
        read: ChunkReader,
        all_read: Callable[[], None],
    ) -> int:
        return self._script.run(
            "load_whole", lambda: self._loader.load_whole(schema, snapshot_id, position, chunks, read, all_read)
        )


class _FaultyDeferredLoader(_FaultyLoader, DeferredConsumer):
    """Whole batches that are committed later, and snapshots."""

    def __init__(self, consumer: DeferredConsumer, script: FaultScript) -> None:
        super().__init__(consumer, script)
        self._deferred = consumer

    def settled(self, table: TableId) -> Position | None:
        return self._deferred.settled(table)

    def settle(self, tables: Collection[TableId]) -> None:
        self._script.run("settle", lambda: self._deferred.settle(tables))
