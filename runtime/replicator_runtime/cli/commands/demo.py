"""`replicator demo`: a small shop, replicated while it changes."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from replicator_runtime.cli.options import AsJson, Debug
from replicator_runtime.cli.report import Report

if TYPE_CHECKING:
    from replicator_runtime.cli.display import Display
    from replicator_runtime.demo import DemoResult
    from replicator_runtime.demo.demo import Watch
    from replicator_runtime.engine.run_state.progress import RunView

PLAIN_SECONDS = 3.0

Directory = Annotated[
    Path, typer.Option(help="Where shop, pipeline, lake and state go; what an earlier demo left there is replaced.")
]

Page = Annotated[
    bool | None,
    typer.Option(
        "--page/--no-page",
        help="End with the page: a service runs the pipeline, and the shop goes on working, until Ctrl-C. On a terminal it does so "
        "when left out.",
        show_default=False,
    ),
]


def demo(
    directory: Directory = Path("replicator-demo"), page: Page = None, as_json: AsJson = False, debug: Debug = False
) -> None:
    """Make a small SQLite shop, replicate it into Delta tables while it changes, and compare both; then show the page.

    Needs no server; tables are compared after about a minute. Ends with exit code 5 should they differ. Example: replicator demo
    """
    if page and as_json:
        raise typer.BadParameter("it prints no address with --json", param_hint="--page")
    with Report("demo", as_json=as_json, debug=debug) as report:
        from replicator_runtime.demo import run_demo
        from replicator_runtime.observability.logs import configure_logging

        configure_logging("warning", "console")
        with ExitStack() as display:
            watch: Watch = (lambda _: None) if as_json else _watch(display)
            result = run_demo(directory, say=report.note, watch=watch)
        report.data = result.to_json()
        _print(report, result)
        result.raise_for_difference()
        report.note(f"equal, every table. Next: {_command()} status {result.pipeline}")
        if page if page is not None else not as_json and sys.stdin.isatty() and sys.stdout.isatty():
            _end_with_page(report, result.pipeline, asked=page is not None)


def _end_with_page(report: Report, pipeline: Path, *, asked: bool) -> None:
    from replicator_runtime.cli.commands.service.places import require_service
    from replicator_sdk.errors import NeedsUserError

    try:
        require_service()
    except NeedsUserError as error:
        if asked:
            raise
        report.note(f"the page is left out: {error}")
        return
    from replicator_runtime.cli.commands.service.demo_page import show_page

    show_page(pipeline, report.note, lambda address: _open(report, address))


def _open(report: Report, address: str) -> None:
    """Print the address, and show it where there is a desktop."""
    import webbrowser

    report.line(address)
    if sys.stdout.isatty() and (
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or sys.platform == "darwin"
    ):
        webbrowser.open(address)


def _command() -> str:
    """What starts this program in a shell: its name where the path has it, else its file."""
    program = Path(sys.argv[0])
    found = shutil.which("replicator")
    return "replicator" if found and Path(found).resolve() == program.resolve() else str(program)


def _watch(stack: ExitStack) -> Watch:
    """Shows the progress from the first word on, until the stack is closed."""
    from replicator_runtime.cli.display import open_display

    opened: list[Display] = []
    last: list[RunView] = []

    def watch(view: RunView) -> None:
        if not opened:
            opened.append(open_display(PLAIN_SECONDS))
            stack.callback(lambda: opened[0].close(last[0]))
        last[:] = [view]
        opened[0].update(view)

    return watch


def _print(report: Report, result: DemoResult) -> None:
    rows = [(t.table, t.source_rows, t.target_rows, t.missing, t.surplus, t.equal) for t in result.tables]
    report.table(("table", "source rows", "target rows", "missing", "surplus", "equal"), rows)
    report.line(
        f"snapshot: {result.snapshot_rows:,} rows in {result.snapshot_seconds:.1f} s, "
        f"{result.snapshot_rows_per_second:,.0f} rows/s (most of it Delta's first use in this JVM)"
    )
    report.line(
        f"changes:  {result.changes:,} rows in {result.change_seconds:.1f} s, "
        f"{result.changes / max(0.001, result.change_seconds):,.0f} rows/s; "
        f"longest lag {result.longest_lag_seconds:.1f} s; the last one was durable after "
        f"{result.last_change_seconds:.1f} s"
    )
