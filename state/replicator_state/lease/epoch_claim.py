"""Claims the next epoch against earlier and concurrent runs."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from replicator_sdk.errors import NeedsUserError
from replicator_state.lease.clock import Clock
from replicator_state.lease.epochs import EpochRegister
from replicator_state.lease.lease_record import LeaseRecord
from replicator_state.storage.folder import Folder
from replicator_state.storage.store_retry import StoreRetry

T = TypeVar("T")

LEASE_HELD = "RPL-7130"
"""The code of the error that another run has the lease."""

_UNKNOWN_TTL = 30.0  # of a holder whose files are damaged
_LONGEST_LOOK = 1.0


def lease_name(epoch: int) -> str:
    """Name of the file that the holder of `epoch` renews."""
    return f"lease.{epoch:020d}"


@dataclass
class _Watch:
    """What was seen of one holder, and since when nothing new was."""

    epoch: int
    seen: bytes | None
    since: float
    alive: bool = False

    def look(self, content: bytes | None, now: float) -> None:
        """Record what the holder's file says now; other content than before shows that it is alive."""
        if content != self.seen:
            self.seen, self.since, self.alive = content, now, True


class EpochClaim:
    """One attempt to become the writer. Not thread-safe."""

    def __init__(self, folder: Folder, retry: StoreRetry, clock: Clock) -> None:
        self._folder = folder
        self._retry = retry
        self._clock = clock
        self._register = EpochRegister(folder)

    def win(self, record: LeaseRecord, wait_seconds: float) -> int:
        """The epoch won for `record`; see `Lease.acquire`."""
        deadline = self._clock.monotonic() + wait_seconds
        watch: _Watch | None = None
        while True:
            newest = self._run(self._register.newest)
            if newest and (watch is None or watch.epoch != newest):
                watch = _Watch(newest, self._content(newest), self._clock.monotonic())
            if watch is None or self._is_free(watch, deadline):
                epoch = newest + 1
                if self._run(lambda epoch=epoch: self._register.claim(epoch, record.to_bytes())):  # type: ignore[misc]
                    return epoch
                # Another run claimed at the same time; when both withdrew, the random delay separates them.
                self._clock.sleep(random.uniform(0.0, 0.05))  # noqa: S311  # no secret
                continue
            self._clock.sleep(min(_LONGEST_LOOK, _ttl(watch) / 20))
            watch.look(self._content(watch.epoch), self._clock.monotonic())

    def newest(self) -> LeaseRecord | None:
        """What the newest holder wrote last; None when there was none, or when its files are damaged. Reads only."""
        epoch = self._run(self._register.newest)
        return _record(_Watch(epoch, self._content(epoch), 0.0)) if epoch else None

    def check_free(self) -> None:
        """Return unless a run goes on, by its lease and the clocks alone. Reads only; `win` decides.

        Raises:
            NeedsUserError: RPL-7130 when one goes on.
        """
        epoch = self._run(self._register.newest)
        watch = _Watch(epoch, self._content(epoch), 0.0) if epoch else None
        record = _record(watch) if watch is not None else None
        if watch is None or record is None or record.released or record.holder.is_gone():
            return
        now = self._clock.wall()
        if now < record.expires_at <= now + timedelta(seconds=record.ttl_seconds + 1):
            raise self._held(watch)

    def _is_free(self, watch: _Watch, deadline: float) -> bool:
        """Whether the watched holder gave up, is dead or was silent long enough.

        Raises:
            NeedsUserError: RPL-7130 when it lives and the time to wait is over.
        """
        holder = _record(watch)
        if holder and (holder.released or holder.holder.is_gone()):
            return True
        now = self._clock.wall()
        quiet = self._clock.monotonic() - watch.since
        lapsed = holder is not None and holder.expires_at <= now
        # A lapsed lease was silent before we came; half its time more shows that its clock is late or it is dead.
        if quiet >= _ttl(watch) * (0.5 if lapsed else 1.0):
            return True
        plausible = holder is not None and now < holder.expires_at <= now + timedelta(seconds=holder.ttl_seconds + 1)
        if (plausible or watch.alive) and self._clock.monotonic() >= deadline:
            raise self._held(watch)
        return False

    def _held(self, watch: _Watch) -> NeedsUserError:
        record = _record(watch)
        who = "a run whose lease file is damaged"
        if record:
            until = record.expires_at.isoformat(timespec="seconds")
            who = f"{record.holder} since {record.acquired_at.isoformat(timespec='seconds')}, lease until {until}"
        return NeedsUserError(
            f"the replicator at {self._folder.place} is already running: {who}",
            code=LEASE_HELD,
            hint="stop that run first; if it died on another host, start again when its lease has run out",
        )

    def _content(self, epoch: int) -> bytes | None:
        """The lease file of `epoch`, or its claim when it was not renewed yet."""

        def read() -> bytes | None:
            """One try, repeated by the store's retry."""
            try:
                return self._folder.read(lease_name(epoch))
            except FileNotFoundError:
                return self._register.read(epoch)

        return self._run(read)

    def _run(self, action: Callable[[], T]) -> T:
        # An operator waits for the start of a run, so what only an operator can fix is reported at once.
        return self._retry.run("take the lease", action, wait_for_user=False)


def _record(watch: _Watch) -> LeaseRecord | None:
    return LeaseRecord.from_bytes(watch.seen) if watch.seen else None


def _ttl(watch: _Watch) -> float:
    record = _record(watch)
    return record.ttl_seconds if record else _UNKNOWN_TTL
