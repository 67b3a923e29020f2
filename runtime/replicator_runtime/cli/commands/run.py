"""`replicator run`: replicate, in the foreground."""

from __future__ import annotations

import enum
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from replicator_runtime.cli.options import AsJson, Debug, PipelineFile
from replicator_runtime.cli.report import Report, say
from replicator_runtime.observability.next_steps import Subject, completed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from replicator_runtime.config import Pipeline, PipelineConfig
    from replicator_runtime.engine.worker import RunResult
    from replicator_runtime.execution import Execution
    from replicator_runtime.exposition.shown import Exposition
    from replicator_runtime.timings.timings import Timings

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


def _address(text: str | None) -> str | None:
    from replicator_runtime.config.sections.metrics import parsed_address

    return _checked(text, parsed_address)


def _textfile(text: str | None) -> str | None:
    from replicator_runtime.config.sections.metrics import text_file_name

    return _checked(text, text_file_name)


def _otlp(text: str | None) -> str | None:
    from replicator_runtime.config.sections.metrics import otlp_endpoint

    checked = _checked(text, otlp_endpoint)
    return None if checked is None else otlp_endpoint(checked)


def _checked(text: str | None, check: Callable[[str], object]) -> str | None:
    """`text` itself.

    Raises:
        typer.BadParameter: What `check` says against it.
    """
    try:
        if text is not None:
            check(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    return text


MetricsAddress = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        callback=_address,
        help="Serve metrics for Prometheus there, without TLS; on the loopback where HOST is left out, on any free port where PORT is 0.",
        show_default=False,
    ),
]
MetricsTextfile = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.prom",
        callback=_textfile,
        help="Write them to this file, for the node exporter: every 15 seconds and when the run ends.",
        show_default=False,
    ),
]
MetricsOtlp = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        callback=_otlp,
        help="Send them by OTLP to this OpenTelemetry collector: every 15 seconds and when the run ends.",
        show_default=False,
    ),
]
MetricsTableLimit = Annotated[
    int | None,
    typer.Option(min=1, help="So many tables have series of their own; 1000 when left out.", show_default=False),
]
ShowTimings = Annotated[
    bool, typer.Option("--timings", help="Say at the end where the time went: each step, and what was waited for.")
]
TimingsFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.json",
        dir_okay=False,
        help="As --timings, and write each step to this file, as trace events for ui.perfetto.dev.",
        show_default=False,
    ),
]


def run(
    pipeline: PipelineFile,
    until_current: UntilCurrent = False,
    metrics_address: MetricsAddress = None,
    metrics_textfile: MetricsTextfile = None,
    metrics_otlp: MetricsOtlp = None,
    metrics_table_limit: MetricsTableLimit = None,
    timings: ShowTimings = False,
    timings_file: TimingsFile = None,
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
        from replicator_runtime.observability.logs import configure_logging
        from replicator_sdk.timeline import step

        given = {"address": metrics_address, "textfile": metrics_textfile, "otlp": metrics_otlp}
        with _timings(report, shown=timings, trace_file=timings_file) as timed:
            with step("pipeline.load"):
                loaded, metrics = _loaded(pipeline, {**given, "table_limit": metrics_table_limit})
            exit_code = _replicate(
                report, loaded, metrics, until_current, lambda: configure_logging(log_level.value, log_format.value)
            )
        if timed is not None:
            report.data["timings"] = timed.data
    if exit_code:
        raise typer.Exit(exit_code)


def _timings(
    report: Report, *, shown: bool, trace_file: Path | None
) -> AbstractContextManager[Timings] | AbstractContextManager[None]:
    if not shown and trace_file is None:
        return nullcontext()
    from replicator_runtime.timings.timings import Timings

    return Timings(trace_file, report.note, report.warn)


def _loaded(pipeline: Path, given: Mapping[str, object]) -> tuple[Pipeline, Exposition]:
    """The pipeline of a file, and its metrics with what the command says of them."""
    from replicator_runtime.config import load_pipeline
    from replicator_runtime.exposition.shown import Exposition

    loaded = load_pipeline(pipeline)
    return loaded, Exposition(_with_options(loaded.config, given))


def _replicate(
    report: Report, loaded: Pipeline, metrics: Exposition, until_current: bool, configure_logging: Callable[[], None]
) -> int:
    """Run until the end, and report it; returns the exit code of a stop by a signal, else 0."""
    from replicator_runtime.engine.run_state.spark_handle import SparkHandle
    from replicator_sdk.timeline import step

    spark = SparkHandle(loaded)
    spark.begin()  # Java starts beside all that comes before a table is opened
    with step("engine.import"):
        from replicator_runtime.cli.display import open_display
        from replicator_runtime.cli.stop_signals import StopSignals
        from replicator_runtime.execution import Execution

    execution = Execution(loaded, until_current=until_current, began=metrics.began, spark=spark)
    with StopSignals(execution.stop, say) as signals:
        display = open_display()
        configure_logging()
        try:
            with metrics.shown(execution.progress):
                for address in metrics.addresses:
                    say(f"metrics at {address}")
                execution.start()
                while not execution.wait(REFRESH_SECONDS):
                    display.update(execution.progress.snapshot())
        finally:
            display.close(execution.progress.snapshot())
        result = execution.result()
    _report_end(report, execution, result)
    return signals.exit_code


def _with_options(config: PipelineConfig, given: Mapping[str, object]) -> PipelineConfig:
    """The settings with what the command says of metrics."""
    metrics = config.metrics.model_copy(update={key: value for key, value in given.items() if value is not None})
    return config.model_copy(update={"metrics": metrics})


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
