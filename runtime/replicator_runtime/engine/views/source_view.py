"""What a source said of itself, as a run shows it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replicator_sdk.discovery.source_health import SourceHealth


@dataclass(frozen=True, slots=True)
class SourceView:
    """What the source said of itself last.

    Attributes:
        answered_at: When, in seconds since 1970.
        health: What.
        clock_ahead: By how many seconds its clock is ahead of this host's; None when it is not known.
        seconds_left: As of then, until it gives up the log that the replicator needs; None when it does not, or there is no limit.
    """

    answered_at: float
    health: SourceHealth
    clock_ahead: float | None = None
    seconds_left: float | None = None

    @property
    def left_now(self) -> float | None:
        """The seconds that are left now: a source that does not answer may give log up all the same."""
        silent = max(0.0, time.time() - self.answered_at)
        return None if self.seconds_left is None else max(0.0, self.seconds_left - silent)

    def ends_within(self, seconds: float) -> bool:
        """Whether the source gives log up within that time, and half of its retention, which may be no longer, is over."""
        left, retention = self.left_now, self.health.retention_seconds
        return left is not None and left < seconds and (retention is None or left <= retention / 2)
