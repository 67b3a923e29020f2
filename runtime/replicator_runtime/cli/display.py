"""Progress on standard error: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from replicator_runtime.cli.report import printable, say
from replicator_runtime.engine.views.phases import ENDED
from replicator_runtime.observability.next_steps import completed

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from replicator_runtime.engine.run_state.progress import RunView, TableView

PLAIN_INTERVAL_SECONDS = 10.0
REPEAT_SECONDS = 60.0
_COLOURS = {"FAILING": "red", "REPLICATING": "green", "SNAPSHOTTING": "cyan", "PAUSED": "yellow"}


class Display(Protocol):
    """Shows a run; used by the main thread only."""

    def update(self, view: RunView) -> None:
        """Show `view`; called several times a second."""

    def close(self, view: RunView) -> None:
        """Show `view` a last time and leave the terminal as it was."""


def open_display(interval_seconds: float = PLAIN_INTERVAL_SECONDS) -> Display:
    """The display that fits standard error; plain lines sum up every `interval_seconds`, or every minute without news."""
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_terminal and not console.is_dumb_terminal:
        return LiveTable(console)
    return PlainLines(interval_seconds)


class PlainLines:
    """A line when a table's state changes, and every ten seconds a line on what is going on.

    A summary that says the same as the last one is printed once a minute, so that an idle run differs from one that hangs.
    """

    def __init__(self, interval_seconds: float = PLAIN_INTERVAL_SECONDS) -> None:
        self._interval = interval_seconds
        self._last_summary = 0.0
        self._states: dict[object, tuple[str, str]] = {}
        self._phase = ""
        self._said: dict[object, str] = {}
        self._next_summary = time.monotonic() + interval_seconds

    def update(self, view: RunView) -> None:
        """Print what changed since the last call."""
        message = view.message.partition(":")[0] if view.phase == "failed" else view.message  # `run` ends with its text
        if (phase := completed(f"{view.phase} {message}".strip())) != self._phase:
            self._phase = phase
            _say(phase)
        for table in view.tables:
            state = (table.state.value, table.error)
            if self._states.get(table.table) != state:
                self._states[table.table] = state
                _say(
                    f"{table.table}: {table.state.value} {table.error.partition(':')[0]}".strip()
                )  # the log has its text
        if time.monotonic() >= self._next_summary:
            self._summarise(view)

    def close(self, view: RunView) -> None:
        """Print a last summary."""
        self.update(view)
        self._summarise(view)

    def _summarise(self, view: RunView) -> None:
        self._next_summary = time.monotonic() + self._interval
        for table in view.tables:
            if table.state.value == "SNAPSHOTTING" and table.rows:
                self._say_news(table.table, f"{table.table}: {', '.join(filter(None, snapshot_words(table)))}")
        now = time.monotonic()
        if now - self._last_summary >= REPEAT_SECONDS:
            self._said.pop(None, None)
        if self._say_news(None, f"{view.phase}: {', '.join([*run_words(view), *doing_words(view)])}"):
            self._last_summary = now

    def _say_news(self, about: object, text: str) -> bool:
        """Print `text` unless it was the last line about the same subject; returns whether it was printed."""
        if self._said.get(about) == text:
            return False
        self._said[about] = text
        _say(text)
        return True


class LiveTable:
    """One row for each table, as many as the terminal is high; failing ones first."""

    def __init__(self, console: Console) -> None:
        from rich.live import Live

        self._console = console
        self._live = Live(console=console, auto_refresh=False, redirect_stdout=False, transient=False)
        self._live.start()

    def update(self, view: RunView) -> None:
        """Draw `view`."""
        self._live.update(self._draw(view), refresh=True)

    def close(self, view: RunView) -> None:
        """Draw `view` a last time and leave it there."""
        self.update(view)
        self._live.stop()

    def _draw(self, view: RunView) -> Table:
        from rich.table import Table
        from rich.text import Text

        title = f"{view.phase} · {' · '.join([*run_words(view), *doing_words(view)])}" + (
            f" · {completed(view.message)}" if view.message else ""
        )
        drawn = Table(title=Text(printable(title)), title_justify="left", box=None, pad_edge=False)
        for heading in ("table", "state", "rows", "snapshot", "rows/s", "lag"):
            drawn.add_column(heading, justify="left" if heading in ("table", "state") else "right")
        rows_shown = max(3, self._console.height - 5)
        rows = sorted(view.tables, key=_urgency)
        for table in rows[:rows_shown]:
            cells = (f"{table.table}", _state(table), f"{table.rows:,}", *_measures(table))
            style = _COLOURS.get(table.state.value, "")
            drawn.add_row(*(Text(printable(c), style=style if i == 1 else "") for i, c in enumerate(cells)))
        if len(rows) > rows_shown:
            drawn.add_row(Text(f"… and {len(rows) - rows_shown:,} more"))
        return drawn


def run_words(view: RunView) -> list[str]:
    """The whole run in a few words: tables by state, rows a second, lag."""
    states = [t.state.value for t in view.tables]
    counted = [f"{states.count(state)} {state.lower()}" for state in dict.fromkeys(sorted(states))]
    # Of a run that has ended nothing is known any more: its last line says what it did, and `run` where it ended.
    lag = [] if view.phase in ENDED else [f"lag {seconds_words(view.lag_seconds)}"]
    return [*counted, f"{view.rows_per_second:,.0f} rows/s", *lag]


def doing_words(view: RunView) -> list[str]:
    """What the run is doing before its stream begins, where that takes a while."""
    return [view.doing] if view.doing else []


def snapshot_words(table: TableView) -> tuple[str, str, str]:
    """A snapshot's rows, percentage with time left, and speed; empty where unknown."""
    percent = "" if table.snapshot_percent is None else f"{table.snapshot_percent:.0f} %"
    left = "" if table.snapshot_seconds_left is None else f" about {seconds_words(table.snapshot_seconds_left)} left"
    return f"{table.rows:,} rows", percent + left, f"{table.rows_per_second:,.0f} rows/s"


def seconds_words(seconds: float | None) -> str:
    """A duration for people."""
    if seconds is None:
        return "unknown"
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _measures(table: TableView) -> tuple[str, str, str]:
    _, percent, speed = snapshot_words(table)
    lag = seconds_words(table.lag_seconds) if table.state.value == "REPLICATING" else ""
    return percent, speed.removesuffix(" rows/s"), lag


def _state(table: TableView) -> str:
    return f"{table.state.value} {table.error}".strip()


def _urgency(table: TableView) -> tuple[int, float, str]:
    rank = {"FAILING": 0, "SNAPSHOTTING": 1}.get(table.state.value, 2)
    return rank, -table.rows_per_second, str(table.table)


def _say(text: str) -> None:
    from replicator_runtime.observability.redaction import redact

    say(f"{datetime.now().astimezone():%H:%M:%S} {redact(text)}")
