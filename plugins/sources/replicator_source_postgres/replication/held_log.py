"""How much log the server keeps for the slot."""

from __future__ import annotations

from typing import Final

import structlog

from replicator_sdk.context import Metrics
from replicator_source_postgres.replication.slot import Slot

log = structlog.get_logger(__name__)

SEGMENT_BYTES: Final = 16 << 20
"""The server removes its log in files of this size."""


class HeldLog:
    """Measures it for the one who operates the server, and warns when it passes a limit.

    Args:
        slot: The slot.
        metrics: Get `source.held_wal_bytes` at each measurement.
        limit_bytes: Above it a warning is logged, once until it is below again; None for none.
    """

    def __init__(self, slot: Slot, metrics: Metrics, limit_bytes: int | None) -> None:
        self._slot = slot
        self._metrics = metrics
        self._limit_bytes = limit_bytes
        self._is_above = False

    def measure(self) -> int:
        """Bytes of log that the slot holds back now; 0 when it is gone."""
        state = self._slot.state()
        held = max(0, state.held_bytes) if state is not None else 0
        self._metrics.gauge("source.held_wal_bytes", held)
        was_above, self._is_above = self._is_above, self._limit_bytes is not None and held > self._limit_bytes
        if self._is_above and not was_above:
            log.warning("slot.holds_much_wal", slot=self._slot.name, held_bytes=held, limit_bytes=self._limit_bytes)
        return held
