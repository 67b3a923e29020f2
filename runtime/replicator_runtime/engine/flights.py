"""What is being applied while the next batch is read and gathered: one flight at a time, so that commits come in order."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import structlog

from replicator_sdk.failpoint import failpoint, register

if TYPE_CHECKING:
    from concurrent.futures import Future

    from replicator_runtime.engine.apply import Applier
    from replicator_runtime.engine.gather import Gathered
    from replicator_runtime.engine.run import Run
    from replicator_runtime.engine.taking_tables import TakingTables
    from replicator_sdk import TableId

register("engine.batch.gathered", "engine.batch.applied")
log = structlog.get_logger()

_IDLE_SAVE_SECONDS = 10.0


class Flights:
    """Used by the engine's main thread; what is applied is so in a thread of its own.

    Args:
        run: The run.
        applier: Applies.
        tables: What becomes of the tables; their gathering is what takes off.
    """

    def __init__(self, run: Run, applier: Applier, tables: TakingTables) -> None:
        self._run = run
        self._applier = applier
        self._tables = tables
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="flush")
        self._flight: Future[dict[TableId, Exception]] | None = None
        self._flown: list[Gathered] = []
        self._flown_to = (tables.gathering.offset, tables.gathering.sequence_number)
        self._flown_oldest = -1
        self._saved_at = self._maintained_at = time.monotonic()

    @property
    def is_flying(self) -> bool:
        """Whether something is in the air."""
        return self._flight is not None

    @property
    def oldest_timestamp(self) -> int:
        """When the oldest change in the air, or else waiting, was committed at the source; -1 for none."""
        return self._tables.gathering.oldest_timestamp if self._flight is None else self._flown_oldest

    def take_off(self) -> None:
        """Begin applying everything gathered; the batch before it ends first."""
        self.land()
        gathering = self._tables.gathering
        self._flown_oldest = gathering.oldest_timestamp
        gathered = gathering.take()
        here = (gathering.offset, gathering.sequence_number)
        if gathered:
            failpoint("engine.batch.gathered")
            self._flown, self._flown_to = gathered, here
            self._flight = self._pool.submit(self._applier.apply, gathered, here[0])
        else:
            self._flown_to = here

    def settle(self) -> None:
        """Keep what the batch in the air did, if it has ended."""
        if self._flight is not None and self._flight.done():
            self.land()

    def land(self) -> None:
        """Wait for the batch that is being applied; keep what it did."""
        if self._flight is None:
            return
        flight, flown, self._flight, self._flown = self._flight, self._flown, None, []
        try:
            failures = flight.result()
        finally:
            for item in flown:
                item.close()
        failpoint("engine.batch.applied")
        self._tables.landed(flown, failures)
        self.save()

    def save(self) -> None:
        """Save how far everything is durable, unless a table is held behind."""
        if self._tables.hold_the_offset:
            return
        self._run.save_offset(*self._flown_to)
        self._saved_at = time.monotonic()

    def save_when_idle(self) -> None:
        """The same every few seconds while there is nothing to apply, since the offset moves all the same."""
        gathering, now = self._tables.gathering, time.monotonic()
        if gathering.empty and self._flight is None and now - self._saved_at > _IDLE_SAVE_SECONDS:
            self._flown_to = (gathering.offset, gathering.sequence_number)
            self.save()
            self._saved_at = now

    def maintain(self) -> None:
        """Let the target keep house when it is time to, as a flight of its own so that it never meets an apply."""
        target, now = self._run.pipeline.target, time.monotonic()
        every = target.maintenance_interval_seconds
        if every <= 0 or self._flight is not None or now - self._maintained_at < every:
            return
        self._maintained_at = now
        tables = sorted(self._tables.floors)

        def maintain() -> dict[TableId, Exception]:
            try:
                target.maintain(self._run.target_context(), tables)
            except Exception as error:  # noqa: BLE001 - housekeeping that fails is tried again later; data is not touched
                log.warning("maintenance.failed", error=str(error))
            return {}

        self._flight = self._pool.submit(maintain)

    def close(self) -> None:
        """Wait for what is in the air and give its space back; what it did is found again by the next attempt."""
        self._pool.shutdown(wait=True)
        for item in self._flown:
            item.close()
