"""Says of a process on another host whether it is gone for certain, by the lease in its replicator's state.

A run renews its lease every ten seconds, and only one run has it. What counts here is that the lease's file does not change while
this host's monotonic clock goes on: no two clocks are compared. `docs/decisions/0075-a-run-on-a-host-that-is-gone.md` says what
follows where this is wrong.
"""

from __future__ import annotations

import enum
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable

    from replicator_runtime.service.supervision.states import Newest
    from replicator_state import ReplicatorDirectory
    from replicator_state.lease.lease_record import LeaseRecord

BEGINS_SECONDS: Final = 120.0
"""After that a process has taken its lease, or never will."""
_LOOK_SECONDS: Final = 5.0
_THREADS: Final = 8
log = structlog.get_logger()


class Former(enum.Enum):
    """What is known of a process that was started on another host."""

    LOOKED_AT = "looked at"
    """Not yet whether it is gone."""
    RENEWS = "renews"
    """It lives: its lease was renewed meanwhile."""
    GONE = "gone"
    UNKNOWN = "unknown"
    """Nothing says that it used the state that is seen from here."""


@dataclass(slots=True)
class _Watch:
    """What was read of one lease, and since when nothing else was.

    Attributes:
        namespace: Of the pipeline.
        name: Of the pipeline.
        looked: When a reading began; None while none has.
        reads: Whether one is under way.
        since: When what is known now was read first; None when nothing is known.
        record: What was read.
        is_shared: Whether hosts are known to share the state: it is no folder of this one's, or the other host was seen in it.
        renews: Whether it has been another one since it is read.
    """

    namespace: str
    name: str
    looked: float | None = None
    reads: bool = False
    since: float | None = None
    record: LeaseRecord | None = None
    is_shared: bool = False
    renews: bool = False


class FormerRuns:
    """Reads leases in threads of its own: who asks waits for none. Safe from any thread.

    Args:
        directory: Gives the state of a pipeline, by namespace and name.
        monotonic: A clock in seconds.
    """

    def __init__(
        self, directory: Callable[[str, str], ReplicatorDirectory], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._directory = directory
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._watches: dict[str, _Watch] = {}
        self._waiting: deque[tuple[str, str]] = deque()
        self._threads = 0

    def look(self, namespace: str, name: str, newest: Newest, host: str) -> Former:
        """What is known of a pipeline's newest process, which was started on `host`; it is read again from time to time."""
        now = self._monotonic()
        with self._lock:
            watch = self._watches.setdefault(newest.instance_id, _Watch(namespace, name))
            if not watch.reads and (watch.looked is None or now - watch.looked >= _LOOK_SECONDS):
                watch.reads, watch.looked = True, now
                self._waiting.append((newest.instance_id, host))
                if self._threads < _THREADS:
                    self._threads += 1
                    threading.Thread(target=self._work, name="former-runs", daemon=True).start()
            return _found(watch, newest, host, now)

    def forget(self, instance_id: str) -> None:
        """It is not asked about any more."""
        with self._lock:
            self._watches.pop(instance_id, None)

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._threads -= 1
                    return
                instance_id, host = self._waiting.popleft()
                watch = self._watches.get(instance_id)
            if watch is not None:
                self._read(watch, host)

    def _read(self, watch: _Watch, host: str) -> None:
        try:
            directory = self._directory(watch.namespace, watch.name)
            record, is_local = directory.newest().newest_lease(), directory.local_home is not None
        except Exception as error:  # noqa: BLE001 - the state is away: the run cannot renew its lease then, either
            log.info("service.lease_not_read", pipeline=watch.name, kind=type(error).__name__)
            with self._lock:
                watch.reads, watch.since, watch.renews = False, None, False
            return
        with self._lock:
            watch.reads = False
            watch.is_shared |= not is_local or (record is not None and record.holder.host == host)
            if watch.since is not None and record == watch.record:
                return
            watch.renews = watch.since is not None and record is not None and not record.released
            watch.record, watch.since = record, self._monotonic()


def _found(watch: _Watch, newest: Newest, host: str, now: float) -> Former:
    if watch.since is None:
        return Former.LOOKED_AT
    if not watch.is_shared:
        return Former.UNKNOWN
    record = watch.record
    # Both times are of the other host's clock.
    is_its_own = record is not None and record.holder.host == host and record.acquired_at >= newest.started
    quiet = record.ttl_seconds if record is not None and is_its_own else BEGINS_SECONDS
    if now - watch.since >= quiet:
        return Former.GONE
    return Former.RENEWS if watch.renews and is_its_own else Former.LOOKED_AT
