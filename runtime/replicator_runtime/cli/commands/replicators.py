"""`replicator list` and `replicator reset`: all replicators below one folder, and one that begins again."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from replicator_runtime.cli.options import AsJson, Base, Debug, PipelineFile, Yes
from replicator_runtime.cli.report import Report
from replicator_runtime.observability.next_steps import Subject

LostState = Annotated[
    bool,
    typer.Option(
        "--lost-state",
        help="The state folder was lost, or is an old copy: begin above all runs that the target may know.",
    ),
]
OneNamespace = Annotated[str | None, typer.Option(help="Only those of this namespace.")]


def list_replicators(
    base: Base = None, namespace: OneNamespace = None, as_json: AsJson = False, debug: Debug = False
) -> None:
    """List the replicators that keep their state below one folder: phase, tables by state, lag, last status.

    Connects to nothing else. One whose state cannot be read is listed with the reason. Example: replicator list --base
    s3://bucket/replicator
    """
    with Report("list", as_json=as_json, debug=debug) as report:
        from replicator_runtime.config.default_paths import default_base_path
        from replicator_runtime.observed.listing import entry
        from replicator_state import ReplicatorDirectory, replicators

        place = base or default_base_path()
        found = [one for one in replicators(place) if namespace in {None, one[0]}]
        report.data = [entry(ReplicatorDirectory(place, *one, retry_seconds=5)) for one in found]
        headings = ("namespace", "name", "phase", "tables", "lag s", "updated", "error")
        report.table(headings, [_row(one) for one in report.data])
        if not found:
            report.note(f"no replicator keeps its state at {place}; --base names another folder")


def reset(
    pipeline: PipelineFile,
    lost_state: LostState = False,
    yes: Yes = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Have every table copied again from the beginning, in place; the way on after the source has lost its log (exit code 7).

    Begins another generation of the state; the former stays beside it. The next run replaces the rows of every table at the
    target, and readers see a part of each until its copy has ended. From a source without snapshots (Kafka) it empties each
    table and reads the log from `startFrom`: let the connector snapshot its tables again before. Refused while a run goes on.
    With `--lost-state` it also ends a run elsewhere that keeps its state at another place. Example: replicator reset pipeline.json --yes
    """
    with Report("reset", as_json=as_json, debug=debug, subject=Subject(str(pipeline))) as report:
        from replicator_runtime.cli.confirmation import LOST_BY_RESET, confirm
        from replicator_runtime.config import load_pipeline
        from replicator_runtime.engine.control.reset import check_reset
        from replicator_runtime.engine.control.reset import reset as begin_again
        from replicator_runtime.observability.logs import configure_logging

        configure_logging("error", "console")
        loaded = load_pipeline(pipeline)
        check_reset(loaded, state_was_lost=lost_state)
        if not yes:
            confirm(LOST_BY_RESET)
        number = begin_again(loaded, state_was_lost=lost_state)
        report.data = {"generation": number}
        report.line(
            f"generation {number} begins with the next run, which copies every table, or reads it from the log's start"
        )


def _row(entry: dict[str, Any]) -> tuple[object, ...]:
    silent = f", silent for {entry['silentSeconds']:,} s" if entry["silentSeconds"] else ""
    silent = ", its process has ended" if entry["processEnded"] else silent
    tables = ", ".join(f"{count} {state}" for state, count in entry["tables"].items())
    phase = f"{entry['phase'] or 'unknown'}{silent}"
    return (entry["namespace"], entry["name"], phase, tables, entry["lagSeconds"], entry["updated"], entry["error"])
