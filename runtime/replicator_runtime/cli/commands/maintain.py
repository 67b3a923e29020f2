"""`replicator maintain`: has the target maintain its tables, without a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from replicator_runtime.cli.commands.run import Format, Level, LogFormat, LogLevel
from replicator_runtime.cli.options import AsJson, Debug, PipelineFile
from replicator_runtime.cli.report import Report, say
from replicator_runtime.observability.next_steps import Subject

if TYPE_CHECKING:
    from replicator_runtime.engine.maintenance.maintenance_run import Outcome
    from replicator_sdk import MaintenanceReport

Tables = Annotated[
    list[str] | None,
    typer.Option("--table", help="Only this table, by name or pattern, as table or schema.table; may be repeated."),
]
Tasks = Annotated[
    list[str] | None, typer.Option("--task", help="Only this task; may be repeated. The target's page names its tasks.")
]
Everything = Annotated[bool, typer.Option("--all", help="Also what is not due yet.")]


def maintain(
    pipeline: PipelineFile,
    table: Tables = None,
    task: Tasks = None,
    everything: Everything = False,
    log_level: Level = LogLevel.WARNING,
    log_format: Format = LogFormat.CONSOLE,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Have the target do the maintenance that is due: compaction, removal of old files and the like.

    A run does the same by itself, so the command is refused while one is going on. Connects to the target only. SIGINT or
    SIGTERM ends it after the step under way. Example: replicator maintain pipeline.json --task compact --all
    """
    with Report("maintain", as_json=as_json, debug=debug, subject=Subject(str(pipeline))) as report:
        from replicator_runtime.cli.stop_signals import StopSignals
        from replicator_runtime.config import load_pipeline
        from replicator_runtime.engine.maintenance.maintenance_run import Wanted, run_maintenance
        from replicator_runtime.execution import InThread
        from replicator_runtime.observability.logs import configure_logging
        from replicator_sdk.errors import ReplicatorError
        from replicator_state import LEASE_HELD

        loaded = load_pipeline(pipeline)
        wanted = Wanted(table or (), task or (), everything)
        work = InThread(lambda stop, progress: run_maintenance(loaded, wanted, stop=stop, progress=progress))
        with StopSignals(work.stop, say) as signals:
            configure_logging(log_level.value, log_format.value)
            work.start()
            try:
                outcomes = work.result()
            except ReplicatorError as error:
                if error.code == LEASE_HELD:
                    report.note("A run is going on, which maintains its tables by itself.")
                raise
        _print(report, outcomes)
    if signals.exit_code:
        raise typer.Exit(signals.exit_code)


def _print(report: Report, outcomes: list[Outcome]) -> None:
    """Print each outcome.

    Raises:
        Exception: The first error of a table.
    """
    report.data = [_json(outcome) for outcome in outcomes]
    if outcomes:
        headings = ("table", "task", "seconds", "files before", "files after", "bytes before", "bytes after", "error")
        report.table(headings, [_row(outcome) for outcome in outcomes])
    else:
        report.note("nothing is due; --all does it nevertheless")
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error


def _row(outcome: Outcome) -> tuple[object, ...]:
    shown = _json(outcome)
    return (outcome.table, *(shown[key] for key in ("task", "seconds", *_COUNTS, "error")))


_COUNTS = ("filesBefore", "filesAfter", "bytesBefore", "bytesAfter")


def _json(outcome: Outcome) -> dict[str, object]:
    from replicator_runtime.engine.run_state.unknown_errors import summary

    first, last = outcome.first, outcome.last
    return {
        **outcome.table.to_json(),
        "task": outcome.task,
        "seconds": round(outcome.seconds, 1),
        "filesBefore": _known(first, "files_before"),
        "filesAfter": _known(last, "files_after"),
        "bytesBefore": _known(first, "bytes_before"),
        "bytesAfter": _known(last, "bytes_after"),
        "finished": last is not None and last.is_finished,
        "error": None if outcome.error is None else summary(outcome.error),
    }


def _known(report: MaintenanceReport | None, name: str) -> int | None:
    value: int | None = getattr(report, name, None)
    return value
