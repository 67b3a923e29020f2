"""`replicator demo`: a small shop, replicated while it changes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from replicator_runtime.cli.options import AsJson, Debug
from replicator_runtime.cli.report import Report

if TYPE_CHECKING:
    from replicator_runtime.demo import DemoResult

Directory = Annotated[
    Path, typer.Option(help="Where shop, pipeline, lake and state go; what an earlier demo left there is replaced.")
]


def demo(directory: Directory = Path("replicator-demo"), as_json: AsJson = False, debug: Debug = False) -> None:
    """Make a small SQLite shop, replicate it into Delta tables while it changes, and compare both.

    Needs no server and takes about a minute. Ends with exit code 5 should they differ. Example: replicator demo
    """
    with Report("demo", as_json=as_json, debug=debug) as report:
        from replicator_runtime.cli.display import PlainLines
        from replicator_runtime.demo import run_demo
        from replicator_runtime.logs import configure_logging

        configure_logging("warning", "console")
        lines = PlainLines(interval_seconds=3.0)
        result = run_demo(directory, say=report.note, watch=(lambda _: None) if as_json else lines.update)
        report.data = result.to_json()
        _print(report, result)
        result.raise_for_difference()
        report.note(f"equal, every table. Next: replicator status {result.pipeline}")


def _print(report: Report, result: DemoResult) -> None:
    rows = [(t.table, t.source_rows, t.target_rows, t.missing, t.surplus, t.equal) for t in result.tables]
    report.table(("table", "source rows", "target rows", "missing", "surplus", "equal"), rows)
    report.line(
        f"snapshot: {result.snapshot_rows:,} rows in {result.snapshot_seconds:.1f} s, "
        f"{result.snapshot_rows_per_second:,.0f} rows/s (Spark's start included)"
    )
    report.line(
        f"changes:  {result.changes:,} rows in {result.change_seconds:.1f} s, "
        f"{result.changes / max(0.001, result.change_seconds):,.0f} rows/s; "
        f"longest lag {result.longest_lag_seconds:.1f} s; the last one was durable after "
        f"{result.last_change_seconds:.1f} s"
    )
