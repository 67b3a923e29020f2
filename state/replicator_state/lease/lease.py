"""The lease: one run at a time may write, and a superseded run is refused."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from replicator_sdk.errors import FencedError, ReplicatorError
from replicator_sdk.failpoint import failpoint, register
from replicator_state.lease.clock import SYSTEM_CLOCK, Clock
from replicator_state.lease.epoch_claim import EpochClaim, lease_name
from replicator_state.lease.epochs import EpochRegister
from replicator_state.lease.lease_holder import LeaseHolder
from replicator_state.lease.lease_record import LeaseRecord
from replicator_state.storage.folder import Folder
from replicator_state.storage.store_retry import StoreRetry

register("state.lease.claimed", "state.lease.before_renew")

_LAST_WORD_SECONDS = 2.0
_log = logging.getLogger("replicator.state")


class Lease:
    """The right to write, held by this run under an epoch that no other run has or will have.

    The lease keeps two runs from starting at once; a paused and resumed run is stopped by the epoch, which targets check
    inside their commits. Safe from any thread.

    Attributes:
        epoch: From 1, higher for every later run of the generation.
        run_id: The run that holds it.
    """

    def __init__(self, folder: Folder, retry: StoreRetry, clock: Clock, epoch: int, record: LeaseRecord) -> None:
        self._folder = folder
        self._retry = retry
        self._clock = clock
        self._register = EpochRegister(folder)
        self._record = record
        self._lock = threading.Lock()
        self.epoch = epoch
        self.run_id = record.holder.run_id

    @classmethod
    def acquire(
        cls,
        folder: Folder,
        retry: StoreRetry,
        run_id: str,
        *,
        ttl_seconds: float = 30.0,
        wait_seconds: float = 0.0,
        clock: Clock = SYSTEM_CLOCK,
    ) -> Lease:
        """Claim the next epoch for `run_id`.

        A lease that was given back, or whose process is dead on this host, is taken over at once; another one when
        its holder has not renewed it for its time to live, measured here by the monotonic clock, so that no clock step
        takes it early or never.

        Args:
            folder: The generation's folder.
            retry: How long faults of the store are waited out.
            run_id: Differs for every start.
            ttl_seconds: After how long without renewal others may take over; renew at least three times as often.
            wait_seconds: How long to wait for a live holder to go away before giving up.
            clock: Clocks.

        Raises:
            NeedsUserError: RPL-7130 when another run holds it, naming run, process, host and times.
            ReplicatorError: When the store fails (RPL-7103 to RPL-7105).
        """
        now = clock.wall()
        holder = LeaseHolder.current(run_id)
        record = LeaseRecord(holder, ttl_seconds, now, now, token=secrets.token_hex(8))
        epoch = EpochClaim(folder, retry, clock).win(record, wait_seconds)
        failpoint("state.lease.claimed")
        lease = cls(folder, retry, clock, epoch, record)
        lease._tidy()
        return lease

    def check(self) -> None:
        """Return while this run may write.

        Raises:
            FencedError: RPL-7131 when a newer run took over.
        """
        if self._retry.run("check the lease", lambda: self._register.superseded(self.epoch)):
            raise FencedError(
                f"run {self.run_id} was superseded: its epoch {self.epoch} at {self._folder.place} is no longer the newest",
                code="RPL-7131",
                hint="do not restart this run; a newer one is replicating (see `replicator status`)",
            )

    def renew(self) -> None:
        """Show others that this run is alive; due at least every third of the time to live.

        Raises:
            FencedError: RPL-7131 when a newer run took over.
        """
        failpoint("state.lease.before_renew")
        self.check()
        self._write(released=False)

    def pass_on(self, folder: Folder, at_least: int = 0) -> None:
        """Let the leases of the empty `folder`, another generation's, have epochs above this one and `at_least`; durable on return.

        Raises:
            FencedError: RPL-7131 when a newer run took over.
        """
        self.check()
        content = self._record.renewed(self._clock.wall(), released=True).to_bytes()
        register = EpochRegister(folder)
        self._retry.run("begin a generation", lambda: register.begin_after(max(self.epoch, at_least), content))

    def dispose(self) -> None:
        """Write nothing any more, since the folder is being deleted: `release` does nothing after this."""
        with self._lock:
            self._record = replace(self._record, released=True)

    def release(self) -> None:
        """Give the lease back, so that the next run starts at once. May be called twice, and when superseded.

        Writes nothing where the claim is gone: the replicator was deleted, and no folder of it is to appear again.

        Never raises: it is called at the end of a run whose own error must not be hidden, and a lease that could not be
        given back falls to the next run when this process is gone.
        """
        retry = StoreRetry(min(_LAST_WORD_SECONDS, self._retry.seconds), "the lease")
        try:
            if retry.run("give the lease back", lambda: self._register.read(self.epoch)) is not None:
                self._write(released=True, retry=retry)
        except Exception as error:  # noqa: BLE001
            _log.warning("could not give the lease back: %s", type(error).__name__, extra={"code": "RPL-7134"})

    @contextmanager
    def renewing(self, on_lost: Callable[[FencedError], None]) -> Iterator[None]:
        """Renew from a thread of its own while the block runs, however long the block's steps take.

        `on_lost` is called once, from that thread, when a newer run took over. Faults of the store are logged and tried
        again: they endanger nothing, since every write is checked by epoch.
        """
        stop = threading.Event()
        thread = threading.Thread(target=self._renew_until, args=(stop, on_lost), name="lease-renewal", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(timeout=self._record.ttl_seconds)

    def _renew_until(self, stop: threading.Event, on_lost: Callable[[FencedError], None]) -> None:
        while not stop.wait(self._record.ttl_seconds / 3):
            try:
                self.renew()
            except FencedError as error:
                on_lost(error)
                return
            except ReplicatorError as error:
                _log.warning("could not renew the lease: %s", error.message, extra={"code": error.code})

    def _write(self, *, released: bool, retry: StoreRetry | None = None) -> None:
        with self._lock:
            if self._record.released:
                return
            record = self._record.renewed(self._clock.wall(), released=released)
            # A file of this epoch's own: a superseded run that writes late cannot disturb its successor's.
            name, content = lease_name(self.epoch), record.to_bytes()
            (retry or self._retry).run("renew the lease", lambda: self._folder.replace(name, content))
            self._record = record

    def _tidy(self) -> None:
        """Remove what crashed and long gone runs left; a failure costs space only."""
        try:
            self._folder.tidy()
            for epoch in self._register.forget_before(self.epoch):
                self._folder.remove(lease_name(epoch))
        except Exception as error:  # noqa: BLE001  # object store clients raise types of their own
            _log.warning("could not tidy old leases: %s", type(error).__name__, extra={"code": "RPL-7133"})
