"""What is being applied while the next batch is read and gathered: one flight at a time, so that commits come in order."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import structlog

from replicator_runtime.engine.unsettled import Unsettled
from replicator_sdk.failpoint import failpoint, register

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Future

    from replicator_runtime.engine.apply import Applier
    from replicator_runtime.engine.gather import Gathered
    from replicator_runtime.engine.run import Run
    from replicator_runtime.engine.taking_tables import TakingTables
    from replicator_sdk import TableId

register("engine.batch.gathered", "engine.batch.applied")
log = structlog.get_logger()

_IDLE_SAVE_SECONDS = 10.0
_LOOK_SECONDS = 0.05


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
        self._unsettled = Unsettled(applier.deferred, tables)
        self._saved_at = self._maintained_at = self._looked_at = time.monotonic()

    @property
    def is_flying(self) -> bool:
        """Whether something is in the air."""
        return self._flight is not None

    @property
    def is_settled(self) -> bool:
        """Whether everything that took off is durable."""
        return self._flight is None and not self._unsettled.waits

    @property
    def unsettled_tables(self) -> frozenset[TableId]:
        """The tables whose target may be further than their floor says."""
        return self._unsettled.tables

    @property
    def oldest_timestamp(self) -> int:
        """When the oldest change not durable, or else waiting, was committed at the source; -1 for none."""
        if self._unsettled.waits:
            return self._unsettled.oldest_timestamp
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
            self._unsettled.mark(here)

    def look(self) -> None:
        """Keep what the batch in the air did, if it has ended, and what the target has made durable meanwhile."""
        if self._flight is not None and self._flight.done():
            self.land()
        now = time.monotonic()
        if self._unsettled.waits and now - self._looked_at > _LOOK_SECONDS:
            self._looked_at = now
            if self._unsettled.look():
                self.save()

    def flush(self) -> None:
        """Apply everything gathered; all of it is durable and saved on return, but for tables that failed."""
        self.take_off()
        self.land()
        self._unsettled.settle()
        self.save()

    def take(self, items: Sequence[Gathered], failures: Mapping[TableId, Exception]) -> None:
        """These changes were applied outside a flight."""
        self._unsettled.take([item.applied for item in items], failures)

    def settle(self, table: TableId) -> None:
        """Have everything made durable that this table has taken."""
        self._unsettled.settle({table})

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
        self._unsettled.take([item.applied for item in flown], failures)
        self._unsettled.mark(self._flown_to, self._flown_oldest)
        self.save()

    def save(self) -> None:
        """Save how far everything is durable, unless a table is held behind."""
        if self._tables.hold_the_offset:
            return
        here = self._unsettled.reached()
        if here is not None:
            self._run.save_offset(*here)
            self._saved_at = time.monotonic()

    def save_when_idle(self) -> None:
        """The same every few seconds while there is nothing to apply, since the offset moves all the same."""
        gathering, now = self._tables.gathering, time.monotonic()
        if gathering.empty and self.is_settled and now - self._saved_at > _IDLE_SAVE_SECONDS:
            self._flown_to = (gathering.offset, gathering.sequence_number)
            self._unsettled.mark(self._flown_to)
            self.save()
            self._saved_at = now

    def maintain(self) -> None:
        """Let the target keep house when it is time to, as a flight of its own so that it never meets an apply."""
        target, now = self._run.pipeline.target, time.monotonic()
        every = target.maintenance_interval_seconds
        if every <= 0 or self._flight is not None or now - self._maintained_at < every:
            return
        self._maintained_at = now
        self._unsettled.settle()
        self.save()
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
