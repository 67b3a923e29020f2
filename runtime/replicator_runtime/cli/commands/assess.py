"""`replicator assess`: reports what will go wrong before a run."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Annotated

import typer

from replicator_runtime.cli.options import AsJson, Debug, PipelineFile
from replicator_runtime.cli.report import Report
from replicator_runtime.observability.next_steps import Subject

if TYPE_CHECKING:
    from replicator_runtime.assessment import PipelineAssessment, TableReport
    from replicator_sdk.discovery.assessment import Finding

NAMES_SHOWN = 4


class End(enum.StrEnum):
    """One end of a pipeline."""

    SOURCE = "source"
    TARGET = "target"


Only = Annotated[
    End | None,
    typer.Option(help="Assess this end alone, without tables; the pipeline may lack the other.", show_default=False),
]


def assess(pipeline: PipelineFile, only: Only = None, as_json: AsJson = False, debug: Debug = False) -> None:
    """Connect to source and target, and report what will go wrong and how to fix it. Changes nothing there.

    Ends with exit code 3 when there is an ERROR. Example: replicator assess pipeline.json
    """
    with Report("assess", as_json=as_json, debug=debug, subject=Subject(str(pipeline))) as report:
        from replicator_runtime.assessment import assess_end, assess_pipeline
        from replicator_runtime.config import load_end, load_pipeline

        if only is None:
            assessed = assess_pipeline(load_pipeline(pipeline))
        else:
            assessed = assess_end(load_end(pipeline, only.value))
        report.data = assessed.to_json()
        if not as_json:
            _print(report, assessed)
        assessed.raise_for_errors()
        if only is None:
            report.note("Next: `replicator run PIPELINE`")


def _print(report: Report, assessed: PipelineAssessment) -> None:
    findings = assessed.all_findings()
    for place, finding in findings:
        _print_finding(report, place, finding)
    if findings:
        report.line()
    if rows := [_row(table) for table in assessed.tables]:
        report.table(("table", "columns", "changed", "lost", "errors", "warnings"), rows)
    changed = [
        (table.table, c.name, c.source_type, c.target_type, c.support.value, c.note)
        for table in assessed.tables
        for c in table.columns
        if c.support.value != "YES"
    ]
    if changed:
        report.line()
        report.table(("table", "column", "type at source", "type at target", "arrives", "note"), changed)
    _print_notes(report, assessed)


def _print_notes(report: Report, assessed: PipelineAssessment) -> None:
    """What is said of columns that arrive whole, each sentence once."""
    about: dict[str, list[str]] = {}
    for table in assessed.tables:
        for column in table.columns:
            if column.support.value == "YES" and column.note:
                about.setdefault(column.note, []).append(f"{table.table}.{column.name}")
    if about:
        report.line()
    for note, names in about.items():
        more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
        report.line(f"note: {note}: {', '.join(names[:NAMES_SHOWN])}{more}")


def _row(table: TableReport) -> tuple[object, ...]:
    support = [c.support.value for c in table.columns]
    severities = [f.severity.value for f in table.findings]
    return (
        table.table,
        len(support),
        support.count("PARTIAL"),
        support.count("NO"),
        severities.count("ERROR"),
        severities.count("WARNING"),
    )


def _print_finding(report: Report, place: str, finding: Finding) -> None:
    where = ".".join(part for part in (place, finding.column) if part)
    report.line(f"{finding.severity.value:<7} {where}: {finding.description} [{finding.code or finding.name}]")
    for label, text in (("impact", finding.impact), ("do", finding.suggestion), ("run", finding.fix)):
        for i, line in enumerate(text.splitlines()):
            report.line(f"        {label + ':' if i == 0 else '':<8}{line}")
