"""`replicator run`: replicate, in the foreground."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Annotated

import typer

from replicator_runtime.cli.options import AsJson, Debug, PipelineFile
from replicator_runtime.cli.report import Report, say
from replicator_runtime.observability.next_steps import Subject, completed

if TYPE_CHECKING:
    from replicator_runtime.engine.worker import RunResult
    from replicator_runtime.execution import Execution

REFRESH_SECONDS = 0.25


class LogLevel(enum.StrEnum):
    """How much is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(enum.StrEnum):
    """In which form."""

    CONSOLE = "console"
    JSON = "json"


UntilCurrent = Annotated[
    bool, typer.Option("--until-current", help="Stop once everything committed before the start is at the target.")
]
Level = Annotated[LogLevel, typer.Option(help="What is logged on standard error.")]
Format = Annotated[LogFormat, typer.Option(help="Lines for people, or one JSON object a line.")]


def run(
    pipeline: PipelineFile,
    until_current: UntilCurrent = False,
    log_level: Level = LogLevel.WARNING,
    log_format: Format = LogFormat.CONSOLE,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Replicate: a snapshot of every table, then every change, until stopped.

    SIGINT (Ctrl-C) or SIGTERM applies what is gathered and leaves a state to go on from; a second one ends at once.
    Progress and logs go to standard error. Example: replicator run pipeline.json --until-current
    """
    with Report("run", as_json=as_json, debug=debug, subject=Subject(str(pipeline))) as report:
        from replicator_runtime.cli.display import open_display
        from replicator_runtime.cli.stop_signals import StopSignals
        from replicator_runtime.config import load_pipeline
        from replicator_runtime.execution import Execution
        from replicator_runtime.observability.logs import configure_logging

        loaded = load_pipeline(pipeline)
        execution = Execution(loaded, until_current=until_current)
        with StopSignals(execution.stop, say) as signals:
            display = open_display()
            configure_logging(log_level.value, log_format.value)
            try:
                execution.start()
                while not execution.wait(REFRESH_SECONDS):
                    display.update(execution.progress.snapshot())
            finally:
                display.close(execution.progress.snapshot())
            result = execution.result()
        _report_end(report, execution, result)
    if signals.exit_code:
        raise typer.Exit(signals.exit_code)


def _report_end(report: Report, execution: Execution, result: RunResult) -> None:
    view = execution.progress.snapshot()
    report.data = {
        "runId": result.run_id,
        "upToDate": result.reached_goal,
        "offset": result.offset,
        "sequenceNumber": result.sequence_number,
        "tables": [
            {
                **t.table.to_json(),
                "state": t.state.value,
                "rows": t.rows,
                "error": completed(t.error, str(t.table)) or None,
            }
            for t in view.tables
        ],
    }
    end = "up to date" if result.reached_goal else "stopped"
    report.note(f"{end} at offset {result.offset or 'none'}, sequence {result.sequence_number:,}")
