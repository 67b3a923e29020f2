"""Shows what was found when tables were compared with their copies: by runs, and over a gap in the history."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from replicator_runtime.engine.repair.history_gaps import stored_gaps
from replicator_runtime.engine.schedule.schedule import stored_schedule
from replicator_runtime.engine.schedule.verified_tables import stored

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from replicator_runtime.cli.report import Report
    from replicator_runtime.engine.repair.history_gaps import HistoryGap
    from replicator_runtime.engine.schedule.schedule import Schedule
    from replicator_runtime.engine.schedule.verified_tables import VerifiedTable
    from replicator_sdk import TableId
    from replicator_state import StateStore

_GAPS_SHOWN: Final = 3


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


def print_comparisons(report: Report, found: Comparisons) -> None:
    """Print the same."""
    print_verified(report, found.schedule, found.verified)
    for gap in found.gaps[-_GAPS_SHOWN:]:
        report.line(f"the history from {gap.after} to {gap.until} was lost ({gap.code}), and healed at {gap.at}")


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
                "verifiedAt": _time(one.at),
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


def print_verified(report: Report, schedule: Schedule | None, found: Mapping[TableId, VerifiedTable]) -> None:
    """Print when each table was verified last, and which differed then."""
    if found:
        report.line()
        report.table(
            ("table", "verified at", "result", "rows", "seconds"),
            [
                (table, _time(one.at) or "never", one.result, one.rows_source, one.seconds)
                for table, one in sorted(found.items())
            ],
        )
    for table, one in sorted(found.items()):
        if one.result == "different":
            report.line(
                f"{table} differed: {one.missing:,} rows missing, {one.surplus:,} surplus, {one.different:,} different;"
                " `replicator verify PIPELINE TABLE --repair` compares again, and repairs (it needs the pipeline's file)",
                str(table),
            )
        if one.error:
            report.line(f"{table} could not be compared, and is tried again: {one.error}", str(table))
    if schedule is not None and not found:
        report.line(
            f"tables are compared every {schedule.every_seconds / 3600:g} h beside `replicator run`; none has been so far"
        )


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
