"""Shows a replicator's status again and again until Ctrl-C: live on a terminal, else lines; with --json one document a line."""

from __future__ import annotations

import json
import signal
import threading
import time
from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol

import typer

from replicator_runtime.cli.report import columns, printable, redacted
from replicator_runtime.cli.watch.rows import FAILING, HEADINGS, PAUSED, WORKS, Row, rows_of, summary_of
from replicator_runtime.observed.liveness import Liveness, liveness, shown_liveness
from replicator_sdk.errors import ReplicatorError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import FrameType

    from rich.console import Console, RenderableType

    from replicator_state import ReplicatorDirectory

_COLOURS: Final = {"FAILING": "red", "REPLICATING": "green", "SNAPSHOTTING": "cyan", "PAUSED": "yellow"}
_NOT_YET: Final = "no status yet"
_WIDEST_TABLE: Final = 50


@dataclass(frozen=True, slots=True)
class Look:
    """What was read at one moment.

    Attributes:
        status: What the run wrote last; None when there is none, or it could not be read.
        problem: Why there is none, or what is wrong with the run's process; empty when all is fine.
        rows: Its tables, in order.
    """

    status: Mapping[str, Any] | None
    problem: str = ""
    rows: list[Row] = field(default_factory=list)

    @classmethod
    def at(cls, directory: ReplicatorDirectory) -> Look:
        """Read the status of the newest generation; a store that fails for a moment ends nothing."""
        try:
            newest = directory.newest()
            found = newest.states().read_status()
            lives = Liveness() if found is None else liveness(newest, found)
        except ReplicatorError as error:
            return cls(None, str(error))
        if found is None:
            return cls(None, f"{_NOT_YET} of generation {newest.generation}")
        return cls(found, str(lives), rows_of(found))

    @classmethod
    def of(cls, read: Callable[[], Mapping[str, Any]]) -> Look:
        """What `read` gives, as `replicator status --json` shows it; a service that is away for a moment ends nothing."""
        try:
            found = read()
        except ReplicatorError as error:
            return cls(None, str(error))
        if "offset" not in found:
            return cls(None, f"{_NOT_YET} of generation {found['generation']}")
        return cls(found, str(shown_liveness(found)), rows_of(found))

    @property
    def version(self) -> tuple[object, ...]:
        """Differs when there is something new to show."""
        status = self.status or {}
        return status.get("runId"), status.get("updated"), self.problem.rstrip("0123456789., s")


class Screen(Protocol):
    """Where looks are shown."""

    def show(self, look: Look) -> None:
        """Show it."""


def watch_looks(look: Callable[[], Look], every_seconds: float, *, as_json: bool) -> NoReturn:
    """Show the status until a signal.

    Args:
        look: Reads it.
        every_seconds: How often it is read.
        as_json: Whether to print one JSON document a line, each time the run has written another.

    Raises:
        typer.Exit: With 130 after Ctrl-C and 143 after SIGTERM.
    """
    from rich.console import Console

    ended = threading.Event()
    console = Console()
    with _signals(ended) as received:
        if as_json or not console.is_terminal or console.is_dumb_terminal:
            _repeat(look, every_seconds, JsonLines() if as_json else TextBlocks(), ended)
        else:
            with _live(console) as screen:
                _repeat(look, every_seconds, screen, ended)
    raise typer.Exit(128 + received[0])


def _repeat(look: Callable[[], Look], every_seconds: float, screen: Screen, ended: threading.Event) -> None:
    while not ended.is_set():
        screen.show(look())
        ended.wait(every_seconds)


@contextmanager
def _signals(ended: threading.Event) -> Iterator[list[int]]:
    """Have SIGINT and SIGTERM set `ended`, so that the terminal is left as it was; gives the number that came."""
    received: list[int] = []

    def take(number: int, _: FrameType | None) -> None:
        received.append(number)
        ended.set()

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, take) for number in numbers}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _WhenNew(ABC):
    """Prints what a look found, unless it says what the last one said."""

    def __init__(self) -> None:
        self._shown: tuple[object, ...] | None = None

    def show(self, look: Look) -> None:
        """Print it, unless it says what the last one said."""
        if look.version != self._shown:
            self._shown = look.version
            self._print(look)

    @abstractmethod
    def _print(self, look: Look) -> None: ...


class JsonLines(_WhenNew):
    """One JSON document a line, in the envelope of `status --json`."""

    def _print(self, look: Look) -> None:
        envelope = {
            "schema": "replicator.status/v1",
            "data": look.status,
            "warnings": [look.problem] if look.problem else [],
            "error": None,
        }
        typer.echo(redacted(json.dumps(envelope, ensure_ascii=False)))


class TextBlocks(_WhenNew):
    """Lines for a file or a pipe, each time there is something new."""

    def _print(self, look: Look) -> None:
        for text in _lines(look):
            typer.echo(redacted(printable(text)))
        typer.echo()


def _lines(look: Look) -> list[str]:
    if look.status is None:
        return [look.problem]
    lines = [f"{look.status['updated']} {summary_of(look.status, look.rows)}"]
    lines += [look.problem] if look.problem else []
    return lines + columns(HEADINGS, [row.cells for row in look.rows])


class LiveScreen:
    """As many tables as the terminal is high.

    Args:
        console: The terminal.
        update: Draws.
    """

    def __init__(self, console: Console, update: Any) -> None:
        self._console = console
        self._update = update

    def show(self, look: Look) -> None:
        """Draw it."""
        self._update(drawn(look, self._console.height), refresh=True)


@contextmanager
def _live(console: Console) -> Iterator[LiveScreen]:
    from rich.live import Live

    with Live(console=console, auto_refresh=False, screen=True) as live:
        yield LiveScreen(console, live.update)


def drawn(look: Look, height: int) -> RenderableType:
    """The look as text and a table that fit in so many lines."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    def text(content: str, style: str = "") -> Text:
        return Text(redacted(printable(content)), style=style, no_wrap=True, overflow="ellipsis")

    if look.status is None:
        return text(look.problem)
    head = [text(summary_of(look.status, look.rows)), text(_written(look.status))]
    head += [text(look.problem, "red")] if look.problem else []
    table = Table(box=None, pad_edge=False)
    for heading in HEADINGS:
        is_text = heading in {"table", "state", "what"}
        widest = _WIDEST_TABLE if heading == "table" else None
        table.add_column(
            heading, justify="left" if is_text else "right", no_wrap=True, overflow="ellipsis", max_width=widest
        )
    fits = max(3, height - len(head) - 3)
    for row in look.rows[:fits]:
        style = _COLOURS.get(row.state, "")
        table.add_row(*(text(cell, style if at == 1 else "") for at, cell in enumerate(row.cells)))
    rest = len(look.rows) - fits
    more = [text(f"… and {rest:,} more, {_rest_words(look.rows[fits:])}")] if rest > 0 else []
    return Group(*head, Text(), table, *more)


def _rest_words(rows: list[Row]) -> str:
    failing = sum(row.rank == FAILING for row in rows)
    fine = sum(row.rank == WORKS for row in rows)
    paused = sum(row.rank == PAUSED for row in rows)
    return f"of which {failing:,} are failing, {paused:,} paused, {fine:,} replicating"


def _written(status: Mapping[str, Any]) -> str:
    age = (datetime.now(UTC) - datetime.fromisoformat(str(status["updated"]))).total_seconds()
    error = status.get("sourceError")
    source = f"{error.get('code') or 'error'}: {error['message']}" if error else "source OK"
    return f"{time.strftime('%H:%M:%S')} · written {max(0.0, age):,.0f} s ago · {source} · Ctrl-C ends"
