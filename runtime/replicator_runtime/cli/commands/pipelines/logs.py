"""`replicator logs`: shows what runs have logged."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from replicator_runtime.cli.commands.run import LogLevel
from replicator_runtime.cli.options import Base, Debug, Namespace, Replicator
from replicator_runtime.cli.report import Report
from replicator_runtime.observability.next_steps import Subject

if TYPE_CHECKING:
    from datetime import datetime

    from replicator_runtime.observability.log_reading import Line, LogReader
    from replicator_state import LogFolder

Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on with the lines that come, until Ctrl-C.")]
Lines = Annotated[
    int | None,
    typer.Option(
        "--lines",
        "-n",
        min=0,
        help="The newest so many, 0 for all; 100 when left out, and all with --since.",
        show_default=False,
    ),
]
Table = Annotated[str, typer.Option(metavar="TABLE", help="Only lines about this table.")]
Level = Annotated[LogLevel, typer.Option(help="Only lines of this level and above.")]
Since = Annotated[str, typer.Option(metavar="TIME", help="Only later lines: `15m`, `2h`, `3d`, or a time in ISO 8601.")]
Spark = Annotated[bool, typer.Option("--spark", help="What Spark's Java virtual machine has said, instead.")]
AsLines = Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")]
_NEWEST = 100


def logs(
    name: Replicator,
    namespace: Namespace = "default",
    base: Base = None,
    follow: Follow = False,
    lines: Lines = None,
    table: Table = "",
    level: Level = LogLevel.DEBUG,
    since: Since = "",
    spark: Spark = False,
    as_json: AsLines = False,
    debug: Debug = False,
) -> None:
    """Show what runs of a replicator have logged, the newest 100 lines; works while it runs and afterwards.

    Connects to nothing. Example: replicator logs pipeline.json --level warning --since 2h
    """
    if spark and (table or since or level is not LogLevel.DEBUG):
        raise typer.BadParameter(
            "Spark's lines name no table, and are not chosen by level or time", param_hint="--spark"
        )
    after = since_of(since) if since else None
    with Report("logs", as_json=False, debug=debug, subject=Subject(name, namespace, base)) as report:
        from replicator_runtime.cli.state_lookup import find_state
        from replicator_runtime.observability.log_reading import LogReader

        folder = find_state(name, namespace, base).directory.logs()
        reader = LogReader(folder, "spark" if spark else "run")
        if spark:
            accepts, show = _of_spark(report, as_json=as_json)
        else:
            accepts, show = _of_runs(report, table, level, after, as_json=as_json)
        if lines is None:
            lines = 0 if since else _NEWEST
        for line in reader.newest(lines or None, accepts, after):
            show(line)
        if follow:
            _follow(reader, folder, accepts, show)


def since_of(text: str) -> datetime:
    """The moment that `--since` means."""
    from replicator_runtime.observability.log_reading import since

    try:
        return since(text)
    except ValueError:
        raise typer.BadParameter("write 15m, 2h, 3d, or a time as 2026-01-31T08:00:00Z", param_hint="--since") from None


def _follow(
    reader: LogReader, folder: LogFolder, accepts: Callable[[bytes], bool], show: Callable[[bytes], None]
) -> None:
    """Until the process is interrupted."""
    while True:
        time.sleep(max(0.5, folder.write_seconds))
        for line in reader.more():
            if accepts(line):
                show(line)


def _of_runs(
    report: Report, table: str, level: LogLevel, after: datetime | None, *, as_json: bool
) -> tuple[Callable[[bytes], bool], Callable[[bytes], None]]:
    from replicator_runtime.observability.log_reading import Wanted, parsed

    wanted = Wanted(table, level.value, after)

    def accepts(line: bytes) -> bool:
        return (found := parsed(line)) is not None and wanted.accepts(found)

    def show(line: bytes) -> None:
        found: Line = parsed(line) or {}
        if as_json:
            typer.echo(json.dumps(found))  # ASCII, so that no terminal obeys what a table is called
            return
        print_line(report, found)

    return accepts, show


def print_line(report: Report, line: Line) -> None:
    """Print a line that a run has logged."""
    from replicator_runtime.observability.log_reading import words

    for text in words(line):
        report.line(_on_one_line(text))


def _of_spark(report: Report, *, as_json: bool) -> tuple[Callable[[bytes], bool], Callable[[bytes], None]]:
    def show(line: bytes) -> None:
        text = line.decode("utf-8", "replace")
        if as_json:
            typer.echo(json.dumps({"text": text}))
        else:
            report.line(_on_one_line(text))

    return (lambda _: True), show


def _on_one_line(text: str) -> str:
    return "".join(c if c.isprintable() or c == "\t" else c.encode("unicode_escape").decode() for c in text)
