"""Changes that a `DeferredConsumer` has taken but not made durable yet; other consumers have none.

No table's watermark rises, and no offset is saved, before the consumer reports that everything up to it is durable: what
is lost before that is read again.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from replicator_runtime.engine.run_state.error_policy import error_of_table
from replicator_sdk.errors import BugError, FencedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from replicator_runtime.engine.batching.batching import AppliedBatch
    from replicator_sdk import DeferredConsumer, Offset, TableId

Here = tuple["Offset", int]


@dataclass(frozen=True, slots=True)
class _Taken:
    """Changes in the order in which they were taken, over all tables."""

    number: int
    item: AppliedBatch


@dataclass(frozen=True, slots=True)
class _Mark:
    """Once everything numbered below `number` is settled, the run is at `here`."""

    number: int
    here: Here
    oldest_timestamp: int


class PendingAcks:
    """Used by the engine's main thread.

    Args:
        consumer: What takes the changes; None when what is applied is durable.
        record_applied: Called with what has become durable, and with the failures; as `ActiveTables.record_applied`.
        is_deferred: Whether that is so of a table, where there is a consumer; what is applied of others is durable at once.
            None where it is so of all.
    """

    def __init__(
        self,
        consumer: DeferredConsumer | None,
        record_applied: Callable[[Sequence[AppliedBatch], Mapping[TableId, Exception]], None],
        is_deferred: Callable[[TableId], bool] | None = None,
    ) -> None:
        self._consumer = consumer
        self._record_applied = record_applied
        self._is_deferred = is_deferred
        self._waiting: dict[TableId, deque[_Taken]] = {}
        self._marks: deque[_Mark] = deque()
        self._number = 0

    @property
    def waits(self) -> bool:
        """Whether something is not settled."""
        return bool(self._waiting)

    @property
    def tables(self) -> frozenset[TableId]:
        """The tables of which something is not settled."""
        return frozenset(self._waiting)

    @property
    def oldest_timestamp(self) -> int:
        """About when the oldest unsettled change was committed at the source; -1 for none, or when it is unknown."""
        return next((mark.oldest_timestamp for mark in self._marks if mark.number >= self._first), -1)

    @property
    def _first(self) -> int:
        """The number of the first that waits; of the next, when none does."""
        return min((queue[0].number for queue in self._waiting.values()), default=self._number + 1)

    def take(self, items: Sequence[AppliedBatch], failures: Mapping[TableId, Exception]) -> None:
        """The consumer has these changes, but for the tables that failed.

        Raises:
            Exception: As `ActiveTables.record_applied`.
        """
        if self._consumer is None:
            self._record_applied(items, failures)
            return
        deferred = [item for item in items if self._is_deferred is None or self._is_deferred(item.table)]
        if len(deferred) < len(items):
            self._record_applied([item for item in items if item not in deferred and item.table not in failures], {})
        for item in deferred:
            if item.table not in failures:
                self._number += 1
                self._waiting.setdefault(item.table, deque()).append(_Taken(self._number, item))
        self._fail(failures)

    def mark(self, here: Here, oldest_timestamp: int = -1) -> None:
        """Everything taken until now brings the run to `here`."""
        self._marks.append(_Mark(self._number, here, oldest_timestamp))
        while len(self._marks) > 1 and self._marks[1].number < self._first:
            self._marks.popleft()

    def reached(self) -> Here | None:
        """How far everything is durable; None when that is no further than at the last call."""
        here, first = None, self._first
        while self._marks and self._marks[0].number < first:
            here = self._marks.popleft().here
        return here

    def poll(self) -> bool:
        """Find what has become durable or has failed; returns whether there was anything.

        Raises:
            FencedError: When a newer run has a table.
            Exception: As `ActiveTables.record_applied`.
        """
        settled: list[AppliedBatch] = []
        failures: dict[TableId, Exception] = {}
        for table in list(self._waiting):
            try:
                settled += self._settled(table)
            except FencedError:
                raise
            except Exception as error:  # noqa: BLE001 - the policy decides
                failures[table] = error_of_table(error, table, str(self._waiting[table][0].item.position))
        self._record_applied(settled, {})
        self._fail(failures)
        return bool(settled or failures)

    def settle(self, tables: Iterable[TableId] | None = None) -> None:
        """Make everything durable, or everything of some tables; waits for it.

        Raises:
            BugError: When the consumer says it has done so and has not.
            Exception: As `look`.
        """
        wanted = self.tables if tables is None else self.tables & set(tables)
        if not wanted or self._consumer is None:
            return
        self._consumer.settle(wanted)
        self.poll()
        if left := wanted & self.tables:
            raise BugError(
                "the target was to make all changes durable, and says neither that it did nor why not",
                code="RPL-9012",
                table=str(min(left)),
            )

    def _settled(self, table: TableId) -> list[AppliedBatch]:
        """What of the table is durable now; it waits no more."""
        assert self._consumer is not None
        position, queue = self._consumer.settled(table), self._waiting[table]
        done = []
        while queue and position is not None and queue[0].item.position <= position:
            done.append(queue.popleft().item)
        if not queue:
            del self._waiting[table]
        return done

    def _fail(self, failures: Mapping[TableId, Exception]) -> None:
        """Forget what these tables had taken: it is read again."""
        for table in failures:
            self._waiting.pop(table, None)
        if failures:
            self._record_applied((), failures)
