"""Structured logs: one JSON object a line, or a readable line on a terminal, always on standard error.

Keys: `ts`, `level`, `event`, `logger`, and where known `pipeline`, `run_id`, `table`, `position`, `code`, `hint`,
`exception`. Records of libraries (standard logging, warnings) have the same form. Every value passes the
redactor; values of rows are never given to a log. `left_out` counts lines of the same kind that were not written.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
import threading
import types
from collections.abc import Mapping, MutableMapping
from typing import Any, Literal, TextIO

import structlog

from replicator_runtime.observability.next_steps import completed
from replicator_runtime.observability.redaction import RedactingFilter, redact_error, redactor
from replicator_runtime.observability.repeated_lines import RepeatedLines
from replicator_sdk.errors import ReplicatorError

LogFormat = Literal["json", "console", "auto"]

# These describe their own wire traffic at INFO.
_NOISY = ("py4j", "asyncio", "urllib3", "botocore", "s3fs", "fsspec", "google", "azure", "pyspark")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_run: dict[str, str] = {}


def configure_logging(level: str = "INFO", form: LogFormat = "auto", *, stream: TextIO | None = None) -> None:
    """Send all logs of this process to standard error in one form. May be called again.

    Args:
        level: `DEBUG`, `INFO`, `WARNING` or `ERROR`, in any case.
        form: `json`, `console`, or `auto`: console on a terminal, else JSON.
        stream: Instead of standard error.

    Raises:
        ValueError: When the level is not known.
    """
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise ValueError(f"unknown log level {level!r}; use DEBUG, INFO, WARNING or ERROR")
    out = stream or sys.stderr
    terminal = out.isatty()
    console = form == "console" or (form == "auto" and terminal)
    shared = _shared_processors()
    handler = logging.StreamHandler(out)
    handler.addFilter(RepeatedLines())
    handler.addFilter(RedactingFilter(redactor(), errors=False))  # errors are described, and cleaned, further down
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.ExtraAdder(), *shared],
            processors=[
                _drop_meta,
                _complete,
                _clean,
                *_renderers(console=console, colors=terminal and "NO_COLOR" not in os.environ),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(number)
    for name in _NOISY:
        logging.getLogger(name).setLevel(max(number, logging.WARNING))
    logging.captureWarnings(capture=True)
    # On a broken format string logging would print message and arguments to standard error, past every filter.
    logging.raiseExceptions = False
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    _install_hooks()


def set_run(pipeline: str = "", run_id: str = "") -> None:
    """Put the pipeline's name and run into every later log line of all threads; without arguments none."""
    _run.clear()
    _run.update({key: value for key, value in (("pipeline", pipeline), ("run_id", run_id)) if value})


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """A logger taking `event, key=value…`; give `table` and `position` where they are known."""
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return logger


def _shared_processors() -> list[structlog.typing.Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        _add_run,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
        _describe_error,
    ]


def _renderers(*, console: bool, colors: bool) -> list[structlog.typing.Processor]:
    if not console:
        return [_order, structlog.processors.JSONRenderer(ensure_ascii=False)]
    return [
        _on_one_line,
        structlog.dev.ConsoleRenderer(
            colors=colors,
            timestamp_key="ts",
            sort_keys=False,
            pad_event_to=0,
            exception_formatter=structlog.dev.plain_traceback,
        ),
    ]


def _add_run(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for key, value in _run.items():
        event.setdefault(key, value)
    return event


def _describe_error(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Turn `exc_info` into code, hint, places and a clean traceback."""
    given = event.pop("exc_info", None)
    error = given if isinstance(given, BaseException) else None
    if isinstance(given, tuple):
        error = given[1]
    elif given is True:
        error = sys.exc_info()[1]
    if isinstance(error, ReplicatorError):
        places = {"code": error.code, "hint": error.hint, "table": error.table, "position": error.position}
        for key, value in places.items():
            if value:
                event.setdefault(key, value)
    if error is not None:
        event["exception"] = redact_error(error, with_traceback=True).rstrip()
    return event


def _drop_meta(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    event.pop("_record", None)
    event.pop("_from_structlog", None)
    return event


def _complete(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Complete the commands that the line advises by the pipeline's file and the line's table."""
    for key in ("event", "error", "hint", "exception"):
        if isinstance(text := event.get(key), str):
            event[key] = completed(text, str(event.get("table") or ""))
    return event


def _clean(_: Any, __: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    cleaned: dict[str, Any] = redactor().value(dict(event))
    return cleaned


def _order(_: Any, __: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    first = ("ts", "level", "event", "pipeline", "run_id", "table", "position", "code")
    return {**{key: event[key] for key in first if key in event}, **event}


def _on_one_line(_: Any, __: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """A table named with an escape sequence or a line feed must not forge lines on the terminal."""
    return {
        key: _CONTROL.sub(lambda m: repr(m[0])[1:-1], value) if isinstance(value, str) and key != "exception" else value
        for key, value in event.items()
    }


def _install_hooks() -> None:
    """Send uncaught errors through the redactor as well."""

    def main(_: type[BaseException], error: BaseException, __: types.TracebackType | None) -> None:
        if isinstance(error, KeyboardInterrupt):
            return
        _write_error(redact_error(error, with_traceback=True))

    def thread(args: threading.ExceptHookArgs) -> None:
        if args.exc_value is not None and not issubclass(args.exc_type, SystemExit):
            name = args.thread.name if args.thread else "?"
            get_logger("replicator").error("a thread failed", thread=name, exc_info=args.exc_value)

    def unraisable(args: Any) -> None:
        if args.exc_value is not None:
            get_logger("replicator").warning("an error could not be raised", exc_info=args.exc_value)

    sys.excepthook = main
    threading.excepthook = thread
    sys.unraisablehook = unraisable


def _write_error(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # standard error is closed
        sys.stderr.write(text)
