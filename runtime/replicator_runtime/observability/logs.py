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
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any, Literal, TextIO

import structlog

from replicator_runtime.observability.next_steps import completed
from replicator_runtime.observability.redaction import RedactingFilter, redact_error, redactor
from replicator_runtime.observability.repeated_lines import RepeatedLines
from replicator_sdk.errors import ReplicatorError

LogFormat = Literal["json", "console", "auto"]

# These describe their own wire traffic at INFO.
_NOISY = (
    "alembic", "asyncio", "azure", "botocore", "fsspec", "google", "kubernetes", "py4j", "pyspark", "s3fs", "sse_starlette", "urllib3", "uvicorn",
)  # fmt: skip
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_KEPT_ONLY = "replicator.kept"
_LONGEST_TEXT = 16_384
_PLACE_OR_TYPE = re.compile(r'Traceback.*|  File ".*|[A-Za-z_][\w.]*(?=:|$)')
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
    handler = logging.StreamHandler(out)
    handler.setLevel(number)
    handler.addFilter(_is_for_terminal)
    handler.addFilter(RepeatedLines())
    handler.addFilter(RedactingFilter(redactor(), errors=False))  # errors are described, and cleaned, further down
    handler.setFormatter(_formatter(*_renderers(console=console, colors=terminal and "NO_COLOR" not in os.environ)))
    root = logging.getLogger()
    root.handlers[:] = [handler, *(kept for kept in root.handlers if isinstance(kept, _KeptHandler))]
    _set_levels(root)
    logging.captureWarnings(capture=True)
    # On a broken format string logging would print message and arguments to standard error, past every filter.
    logging.raiseExceptions = False
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_shared_processors(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    _install_hooks()


def is_configured() -> bool:
    """Whether `configure_logging` was called in this process, and what it made is in place."""
    return any(_is_ours(h) and not isinstance(h, _KeptHandler) for h in logging.getLogger().handlers)


@contextlib.contextmanager
def kept(level: str, keep: Callable[[bytes], None]) -> Iterator[None]:
    """Give every line from this level on to `keep` as well, within the block, as JSON that ends with a line feed.

    Lines of `get_kept_logger` come only here. Nothing is kept before `configure_logging` was called.

    Args:
        level: As `configure_logging`; standard error has its own.
        keep: Called in the thread that logs; must return at once and raise nothing.
    """
    if not is_configured():
        yield
        return
    root, handler = logging.getLogger(), _KeptHandler(keep)
    handler.setLevel(level.upper())
    root.addHandler(handler)
    _set_levels(root)
    try:
        yield
    finally:
        root.removeHandler(handler)
        _set_levels(root)


def get_kept_logger() -> structlog.stdlib.BoundLogger:
    """A logger of lines for the kept log alone, since standard error says the same in another way."""
    return get_logger(_KEPT_ONLY)


class _KeptHandler(logging.Handler):
    """Gives each line as JSON, without secrets, never longer than some kilobytes, and of exceptions the places and types only.

    What an unknown exception says may quote values of rows, which are not to be stored; lines of level DEBUG keep it.
    """

    def __init__(self, keep: Callable[[bytes], None]) -> None:
        super().__init__()
        self._keep = keep
        self.addFilter(RepeatedLines())
        self.addFilter(RedactingFilter(redactor(), errors=False))
        self.setFormatter(_formatter(_without_texts, _shorten, *_renderers(console=False, colors=False)))

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the record's line."""
        try:
            self._keep(self.format(record).encode("utf-8", "backslashreplace") + b"\n")
        except Exception:  # noqa: BLE001 - a line that cannot be made must not end what logs it
            self.handleError(record)


def _set_levels(root: logging.Logger) -> None:
    """Make what some handler wants, and drop the rest before it costs anything."""
    number = min((handler.level for handler in root.handlers if _is_ours(handler)), default=logging.WARNING)
    root.setLevel(number)
    for name in _NOISY:
        logging.getLogger(name).setLevel(max(number, logging.WARNING))


def _is_ours(handler: logging.Handler) -> bool:
    return isinstance(handler.formatter, structlog.stdlib.ProcessorFormatter)


def _is_for_terminal(record: logging.LogRecord) -> bool:
    return record.name != _KEPT_ONLY


def _without_texts(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    if "exception" in event and event.get("level") != "debug":
        found = (_PLACE_OR_TYPE.match(line) for line in str(event["exception"]).splitlines())
        event["exception"] = "\n".join(part[0] for part in found if part)
    return event


def _shorten(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for key, value in event.items():
        if isinstance(value, str) and len(value) > _LONGEST_TEXT:
            event[key] = f"{value[:_LONGEST_TEXT]} … {len(value) - _LONGEST_TEXT} characters left out"
    return event


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


def _formatter(*last: structlog.typing.Processor) -> logging.Formatter:
    """Makes a line's text from a record of ours, or of a library."""
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[structlog.stdlib.ExtraAdder(), *_shared_processors()],
        processors=[_drop_meta, _complete, _clean, *last],
    )


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
