"""Contexts for a plugin under test, without a runtime, and an emitter that keeps every event."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from replicator_sdk.batch import ChangeBatch, Commits, single_commit
from replicator_sdk.context import (
    Configurer,
    DeltaSourceContext,
    DeltaTargetContext,
    LineageRecorder,
    Metrics,
)
from replicator_sdk.errors import BugError
from replicator_sdk.event import DDLEvent, DMLEvent, DMLOperation
from replicator_sdk.offset import Offset
from replicator_sdk.schema import TableId
from replicator_sdk.source import EventEmitter, ReaderClosed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from replicator_sdk.discovery.clean_up import StoredState
    from replicator_sdk.discovery.table_storage import TableStorage


class CountingMetrics(Metrics):
    """Counters and gauges in two dictionaries, keyed by name, and what was said last of the storage of each table."""

    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()
        self.gauges: dict[str, float] = {}
        self.storage: dict[TableId, TableStorage] = {}

    def count(self, name: str, value: int = 1, *, table: TableId | None = None) -> None:  # noqa: ARG002
        """Add to a counter, over all tables."""
        self.counters[name] += value

    def gauge(self, name: str, value: float, *, table: TableId | None = None) -> None:  # noqa: ARG002
        """Set a gauge, over all tables."""
        self.gauges[name] = value

    def stored(self, table: TableId, storage: TableStorage) -> None:
        """Keep it."""
        self.storage[table] = storage


class ForgetfulLineage(LineageRecorder):
    """Drops every record."""

    def record(self, table: TableId, target: str, columns: Mapping[str, str]) -> None:
        """Drop it."""


class TestSourceContext(DeltaSourceContext):
    """A source's context in memory; set `committed` to say what is durable at the target.

    Attributes:
        committed: What `committed_offset` and `get_offset` answer.
        state: What `put_state` kept.
        errors: Every error shown by `set_error`, in order.
        stopping: What `is_stopping` answers.
        former: What `former_states` answers.
        lost: What `state_was_lost` answers.
    """

    __test__ = False

    def __init__(self, name: str = "conformance", state: dict[str, bytes] | None = None) -> None:
        _describe(self, name)
        self.committed: Offset | None = None
        self.state = {} if state is None else state
        self.errors: list[Exception] = []
        self.stopping = False
        self.former: list[StoredState] = []
        self.lost = False

    @property
    def is_stopping(self) -> bool:
        """Whether the test has set `stopping`."""
        return self.stopping

    @property
    def state_was_lost(self) -> bool:
        """Whether the test has set `lost`."""
        return self.lost

    def former_states(self) -> Sequence[StoredState]:
        """What the test has put into `former`."""
        return self.former

    def get_state(self, key: str) -> bytes | None:
        """What was kept under `key`."""
        return self.state.get(key)

    def put_state(self, key: str, value: bytes) -> None:
        """Keep it in memory."""
        self.state[key] = value

    def get_offset(self) -> Offset | None:
        """The committed offset."""
        return self.committed

    def committed_offset(self) -> Offset | None:
        """The committed offset."""
        return self.committed

    def set_ok(self) -> None:
        """Nothing to show."""

    def set_error(self, error: Exception) -> None:
        """Keep the error."""
        self.errors.append(error)

    def spark(self) -> SparkSession:
        """There is none.

        Raises:
            BugError: Always; subclass to give one.
        """
        raise BugError("the test context has no Spark session", code="RPL-9101")


class TestTargetContext(DeltaTargetContext):
    """A target's context in memory.

    Args:
        read_offset: Makes an offset from its stored fields; the source's `offset_type.from_fields`.
        epoch: The run's lease epoch.
        spark: Gives the Spark session, for targets that need one.

    Attributes:
        stopping: What `is_stopping` answers.
    """

    __test__ = False

    def __init__(
        self,
        read_offset: Callable[[Mapping[str, bytes]], Offset],
        *,
        epoch: int = 1,
        generation: int = 1,
        parallel_tables: int = 2,
        spark: Callable[[], SparkSession] | None = None,
        name: str = "conformance",
    ) -> None:
        _describe(self, name)
        self.epoch = epoch
        self.generation = generation
        self.parallel_tables = parallel_tables
        self.stopping = False
        self.committed: list[tuple[Offset, int]] = []
        self.table_states: dict[TableId, str] = {}
        self.table_errors: dict[TableId, Exception] = {}
        self.state: dict[str, bytes] = {}
        self._read_offset = read_offset
        self._spark = spark

    def get_state(self, key: str) -> bytes | None:
        """What was kept under `key`."""
        return self.state.get(key)

    def put_state(self, key: str, value: bytes) -> None:
        """Keep it in memory."""
        self.state[key] = value

    def get_offset(self) -> Offset | None:
        """The offset committed last."""
        return self.committed[-1][0] if self.committed else None

    def spark(self) -> SparkSession:
        """The session it was given.

        Raises:
            BugError: When none was given.
        """
        if self._spark is None:
            raise BugError("the test context has no Spark session", code="RPL-9101", hint="pass spark=…")
        return self._spark()

    @property
    def is_stopping(self) -> bool:
        """Whether the test has set `stopping`."""
        return self.stopping

    def commit_offset(self, offset: Offset, sequence_number: int) -> None:
        """Keep both."""
        self.committed.append((offset, sequence_number))

    def read_offset(self, fields: Mapping[str, bytes]) -> Offset:
        """The offset that the fields stored."""
        return self._read_offset(fields)

    def set_table_error(self, table: TableId, error: Exception) -> None:
        """Keep the error."""
        self.table_states[table] = "FAILING"
        self.table_errors[table] = error

    def set_table_snapshotting(self, table: TableId) -> None:
        """Keep the state."""
        self.table_states[table] = "SNAPSHOTTING"

    def set_table_replicating(self, table: TableId) -> None:
        """Keep the state."""
        self.table_states[table] = "REPLICATING"


class CollectingConfigurer(Configurer):
    """Keeps what a plugin asks for and complains about."""

    def __init__(self) -> None:
        self.packages: list[str] = []
        self.conf: dict[str, str] = {}
        self.failures: list[tuple[str, str, str]] = []

    def require_spark(self, *, packages: Sequence[str] = (), conf: Mapping[str, str] | None = None) -> None:
        """Keep both."""
        self.packages.extend(packages)
        self.conf.update(conf or {})

    def add_failure(self, message: str, *, path: str = "", hint: str = "") -> None:
        """Keep it."""
        self.failures.append((message, path, hint))


@dataclass
class Window:
    """What was emitted between two `emit_commits`.

    Attributes:
        events: Batches, DDL events and single events in the order of emission, with sequence numbers.
        ordinals: For each of `events`, the ordinals of what is in it.
        commits: What ended the window; None while it is open.
    """

    events: list[ChangeBatch | DDLEvent | DMLEvent] = field(default_factory=list)
    ordinals: list[Sequence[int]] = field(default_factory=list)
    commits: Commits | None = None


class CollectingEmitter(EventEmitter):
    """Keeps everything in memory, numbers it as the runtime does, and checks the rules of `EventEmitter` as it goes.

    Emission is the reader's thread's; `wait_for`, `closed_windows` and `close` may be called from others.

    Args:
        first_sequence: The sequence number before the first event.
    """

    def __init__(self, first_sequence: int = 0) -> None:
        self.windows: list[Window] = [Window()]
        self.sequence = first_sequence
        self._changed = threading.Condition()
        self._closed = False
        self._single = 0  # events emitted one by one since the last commit
        self._is_numbered = False  # whether one of them came with an ordinal of its own

    def emit(self, event: DDLEvent | DMLEvent) -> None:
        """Keep one event; a COMMIT ends the window."""
        if isinstance(event, DMLEvent):
            self._emit_single(event)
            return
        ordinal = self._next_ordinal(event.ordinal)
        self._take(replace(event, ordinal=ordinal, sequence_number=self.sequence + ordinal + 1), (ordinal,))

    def emit_batch(self, batch: ChangeBatch) -> None:
        """Keep a batch."""
        ordinals = [int(o) for o in batch.ordinals]
        if any(b <= a for a, b in pairwise(ordinals)):
            raise BugError("ordinals of a batch must ascend", code="RPL-9102", table=str(batch.table))
        if batch.before is not None and not (batch.schema.primary_key or batch.before_is_full):
            text = "`before` holds whole rows where a table has no key, and `before_is_full` says so"
            raise BugError(text, code="RPL-9110", table=str(batch.table))
        numbered = replace(batch, sequence_numbers=self.sequence + 1 + np.asarray(batch.ordinals, np.int64))
        self._take(numbered, ordinals)

    def emit_commits(self, commits: Commits) -> None:
        """End the window."""
        window = self.windows[-1]
        if _repeats(window) or max((o for used in window.ordinals for o in used), default=-1) >= commits.events:
            raise BugError("a window's ordinals repeat, or go beyond its commits", code="RPL-9103")
        if any(isinstance(e, DDLEvent) and e.ordinal > commits.ordinals[0] for e in window.events):
            raise BugError("a DDL event must be in the first transaction of its window", code="RPL-9104")
        with self._changed:
            self._raise_when_closed()
            last = self.last_offset
            if last is not None and not last < commits.offset_at(0):
                raise BugError("offsets of commits must ascend", code="RPL-9105", position=str(commits.offset_at(0)))
            window.commits = commits
            self._single, self._is_numbered = 0, False
            self.sequence += commits.events
            self.windows.append(Window())
            self._changed.notify_all()

    @property
    def last_offset(self) -> Offset | None:
        """The offset after everything committed so far; None before the first commit."""
        done = [w.commits for w in self.windows if w.commits is not None]
        return done[-1].last if done else None

    @property
    def closed_windows(self) -> list[Window]:
        """The windows that are ended."""
        with self._changed:
            return [w for w in self.windows if w.commits is not None]

    def wait_for(self, offset: Offset, timeout: float, alive: Callable[[], bool] = lambda: True) -> bool:
        """Whether `offset` was reached within `timeout` seconds, while `alive` (asked every tenth of a second)."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while (last := self.last_offset) is None or last < offset:
                left = deadline - time.monotonic()
                if left <= 0 or not alive():
                    return False
                self._changed.wait(min(left, 0.1))
        return True

    def close(self) -> None:
        """Let the reader's next emission raise `ReaderClosed`."""
        with self._changed:
            self._closed = True

    def _emit_single(self, event: DMLEvent) -> None:
        if event.operation is DMLOperation.COMMIT:
            self.emit_commits(single_commit(self._single, event.offset, _microseconds(event)))
        else:
            ordinal, self._single = self._single, self._single + 1
            self._take(replace(event, sequence_number=self.sequence + ordinal + 1), (ordinal,))

    def _next_ordinal(self, given: int) -> int:
        self._is_numbered |= given > 0
        ordinal = given if self._is_numbered else self._single
        self._single = max(self._single, ordinal + 1)
        return ordinal

    def _take(self, event: ChangeBatch | DDLEvent | DMLEvent, ordinals: Sequence[int]) -> None:
        with self._changed:
            self._raise_when_closed()
            self.windows[-1].events.append(event)
            self.windows[-1].ordinals.append(ordinals)

    def _raise_when_closed(self) -> None:
        if self._closed:
            raise ReaderClosed


def _repeats(window: Window) -> bool:
    """Whether events have the ordinals of others: of any table, or of their own where the window changes structure."""
    has_ddl = any(isinstance(event, DDLEvent) for event in window.events)
    pairs = zip(window.events, window.ordinals, strict=True)
    used = [(event.table if has_ddl else None, o) for event, ordinals in pairs for o in ordinals]
    return len(used) != len(set(used))


def _microseconds(event: DMLEvent) -> int:
    return -1 if event.source_timestamp is None else int(event.source_timestamp.timestamp() * 1_000_000)


def _describe(context: Any, name: str) -> None:
    context.replicator_name = name
    context.namespace = "default"
    context.generation = 1
    context.run_id = f"{name}-run"
    context.metrics = CountingMetrics()
    context.lineage = ForgetfulLineage()
