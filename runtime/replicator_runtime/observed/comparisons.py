"""What was found when tables were compared with their copies: by runs, and over a gap in the history."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from replicator_runtime.engine.repair.history_gaps import stored_gaps
from replicator_runtime.engine.schedule.schedule import stored_schedule
from replicator_runtime.engine.schedule.verified_tables import stored

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from replicator_runtime.engine.repair.history_gaps import HistoryGap
    from replicator_runtime.engine.schedule.schedule import Schedule
    from replicator_runtime.engine.schedule.verified_tables import VerifiedTable
    from replicator_sdk import TableId
    from replicator_state import StateStore


@dataclass(frozen=True, slots=True)
class Comparisons:
    """What is stored of them.

    Attributes:
        schedule: What runs compare; None when nothing.
        verified: What they found of each table last.
        gaps: The parts of the history that were lost.
    """

    schedule: Schedule | None
    verified: Mapping[TableId, VerifiedTable]
    gaps: Sequence[HistoryGap]

    @classmethod
    def of(cls, store: StateStore) -> Comparisons:
        """Those of a replicator, by the runtime's own state."""
        return cls(stored_schedule(store), stored(store), stored_gaps(store))

    def to_json(self) -> dict[str, Any]:
        """What `status` shows of them."""
        return {
            "verification": verification_json(self.schedule, self.verified),
            "historyGaps": [gap.to_json() for gap in self.gaps],
        }


def verification_json(schedule: Schedule | None, found: Mapping[TableId, VerifiedTable]) -> dict[str, Any] | None:
    """The schedule, and what was found of each table last; None where nothing was ever scheduled."""
    if schedule is None and not found:
        return None
    return {
        "everySeconds": schedule and schedule.every_seconds,
        "rowsPerSecond": schedule and schedule.rows_per_second,
        "tables": [
            {
                **table.to_json(),
                "verifiedAt": time_text(one.at),
                "result": one.result or None,
                "rowsSource": one.rows_source,
                "missing": one.missing,
                "surplus": one.surplus,
                "different": one.different,
                "changing": one.changing,
                "position": one.position or None,
                "seconds": one.seconds,
                "error": one.error or None,
            }
            for table, one in sorted(found.items())
        ],
    }


def time_text(seconds: float | None) -> str | None:
    """ISO 8601, of seconds since 1970."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
