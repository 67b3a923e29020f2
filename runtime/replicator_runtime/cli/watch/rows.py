"""What is shown of each table, in which order: those that need an operator first, then those that lag most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from replicator_runtime.cli.display import seconds_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB")


@dataclass(frozen=True, slots=True)
class Row:
    """One table.

    Attributes:
        rank: Lower needs an operator sooner.
        table: Its name.
        state: Its state.
        rows: Rows copied, or changes applied, in this run.
        snapshot: How far its copy is; empty when there is none.
        rate: Rows a second.
        lag: In seconds; None when unknown.
        held: Bytes kept for it in its lane.
        why: What an operator should know of it; empty when it is fine.
    """

    rank: int
    table: str
    state: str
    rows: int
    snapshot: str
    rate: float | None
    lag: float | None
    held: int
    why: str

    @property
    def cells(self) -> tuple[str, ...]:
        """The row as text, in the order of `HEADINGS`."""
        rate = "" if self.rate is None else f"{self.rate:,.0f}"
        lag = "" if self.lag is None else seconds_words(self.lag)
        held = bytes_words(self.held) if self.held else ""
        return self.table, self.state, f"{self.rows:,}", self.snapshot, rate, lag, held, self.why


HEADINGS: Final = ("table", "state", "rows", "snapshot", "rows/s", "lag", "held", "what")
FAILING, ASKS, WAITS, COPIED, PAUSED, WORKS = range(6)


def rows_of(status: Mapping[str, Any]) -> list[Row]:
    """All tables of a status, in order."""
    return sorted(map(_row, status["tables"]), key=lambda row: (row.rank, -(row.lag or 0.0), row.table))


def _row(table: Mapping[str, Any]) -> Row:
    pause = table.get("pause") or {}
    percent = table.get("snapshotPercent")
    rank, why = _need(table, pause)
    return Row(
        rank,
        f"{table['schema'] or table['database']}.{table['table']}",
        table["state"],
        table["rows"],
        "" if percent is None else f"{percent:.0f} %",
        table.get("rowsPerSecond"),
        table.get("lagSeconds"),
        pause.get("laneBytes", 0),
        why,
    )


def _need(table: Mapping[str, Any], pause: Mapping[str, Any]) -> tuple[int, str]:
    error = table.get("error")
    if table["state"] == "FAILING" or error:
        return FAILING, f"{error.get('code') or 'error'}: {error['message']}" if error else ""
    if asks := pause.get("asks"):
        return ASKS, f"waits for a decision: {asks}"
    if waits_for := table.get("waitsFor"):
        return WAITS, str(waits_for)
    if table["state"] in {"SNAPSHOTTING", "PENDING"}:
        return COPIED, ""
    if pause:
        return PAUSED, "resuming" if pause.get("resuming") else f"paused since {pause['since']}"
    return WORKS, ""


def summary_of(status: Mapping[str, Any], rows: Sequence[Row]) -> str:
    """The whole run in a line: phase, tables by state, rows a second, lag, what the source holds."""
    states = [row.state for row in rows]
    counted = [f"{states.count(state):,} {state.lower()}" for state in sorted(set(states))]
    rate = status.get("rowsPerSecond")
    parts = [
        f"{status['name']} (namespace {status['namespace']}, generation {status['generation']}): {status['phase']}",
        *counted,
        *([f"{rate:,.0f} rows/s"] if rate is not None else []),
        f"lag {seconds_words(status.get('lagSeconds'))}",
        *_held_words(status.get("source") or {}),
    ]
    return " · ".join(parts)


def _held_words(source: Mapping[str, Any]) -> list[str]:
    """How much log the source keeps for the replicator, or has for it, and for how long it still does, where the run knows it."""
    held, waiting, changes = source.get("heldBytes"), source.get("waitingBytes"), source.get("waitingChanges")
    if held is not None:
        said = [f"source holds {bytes_words(held)}"]
    elif waiting:
        said = [f"{bytes_words(waiting)} wait at the source"]
    else:
        said = [f"{changes:,} changes wait at the source"] if changes else []
    left = source.get("secondsLeft")
    limit = source.get("limitedBy") or "its limit"
    return said if left is None else [*said, f"{seconds_words(left)} until {limit}"]


def bytes_words(count: float) -> str:
    """An amount of bytes for people."""
    unit = 0
    while count >= 1000 and unit < len(_UNITS) - 1:
        count, unit = count / 1000, unit + 1
    return f"{count:,.0f} {_UNITS[unit]}" if unit == 0 else f"{count:,.1f} {_UNITS[unit]}"
