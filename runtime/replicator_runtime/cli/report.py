"""The output of a command: data on standard output, messages on standard error, one JSON envelope, one exit code."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import typer

from replicator_runtime import FOR_SERVICE
from replicator_runtime.observability.next_steps import Subject, completed, set_subject

if TYPE_CHECKING:
    from replicator_sdk.errors import ReplicatorError

UNEXPECTED = "RPL-9000"
ERROR_PAGE = "docs/errors.md"
"""Set for commands that a service runs for someone else: the envelope has the printed `lines`, too, and next steps name no file of the service."""


class Report:
    """What one command prints; used as a context manager around the command's work.

    In text mode everything is printed at once, in JSON mode one envelope at the end. An error ends the process with its
    own exit code, without a traceback unless asked for.

    Args:
        command: The command's name; the envelope's schema is `replicator.<command>/v1`.
        as_json: Whether to print the envelope.
        debug: Whether to show tracebacks.
        subject: What the command was given; next steps are printed for it, here and in logs, while this is entered.

    Attributes:
        data: The command's result, in JSON values.
    """

    def __init__(self, command: str, *, as_json: bool, debug: bool = False, subject: Subject | None = None) -> None:
        self.data: Any = None
        self._command = command
        self._as_json = as_json
        self._debug = debug
        for_service = bool(os.environ.get(FOR_SERVICE))
        self._lines: list[str] | None = [] if as_json and for_service else None
        self._subject = subject if subject is not None and not for_service else Subject()
        self._warnings: list[str] = []

    @property
    def as_json(self) -> bool:
        """Whether data is printed in the envelope instead of as text."""
        return self._as_json

    def warn(self, message: str, table: str = "") -> None:
        """Print a warning, with the commands that it names completed for `table`, if it is about one."""
        text = redacted(completed(message, table))
        self._warnings.append(text)
        if not self._as_json:
            say(f"warning: {text}")

    def note(self, message: str) -> None:
        """Print a message for users; left out of JSON."""
        if not self._as_json:
            say(redacted(completed(message)))

    def line(self, text: str = "", table: str = "") -> None:
        """Print a line of data, with the commands that it names completed for `table`, if it is about one; in text mode only."""
        self._echo(completed(text, table))

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Print data in columns; in text mode only. Numbers are right-aligned."""
        if not self._as_json or self._lines is not None:
            for text in columns(headings, rows):
                self._echo(text)

    def _echo(self, text: str) -> None:
        if self._lines is not None:
            self._lines.append(printable(text))
        elif not self._as_json:
            typer.echo(redacted(printable(text)))

    def __enter__(self) -> Self:
        set_subject(self._subject)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._end(kind, error, trace)
        finally:
            set_subject(Subject())

    def _end(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            self._close(None)
            return
        if isinstance(error, (typer.Exit, typer.Abort, typer.BadParameter, SystemExit, GeneratorExit)):
            return
        if isinstance(error, BrokenPipeError):  # `replicator … | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        if isinstance(error, KeyboardInterrupt):
            raise typer.Exit(130) from None
        if self._debug:
            say(redacted("".join(traceback.format_exception(kind, error, trace))))
        known = as_replicator_error(error)
        self._close(known)
        raise typer.Exit(known.exit_code) from None

    def _close(self, error: ReplicatorError | None) -> None:
        if self._as_json:
            envelope = {
                "schema": f"replicator.{self._command}/v1",
                "data": self.data,
                "warnings": self._warnings,
                "error": None if error is None else error_json(error),
                **({} if self._lines is None else {"lines": self._lines}),
            }
            typer.echo(json.dumps(_redacted_strings(envelope), indent=2, ensure_ascii=False))
        elif error is not None:
            for text in error_lines(error):
                say(text)


def say(message: str) -> None:
    """Print a message on standard error."""
    typer.echo(printable(message), err=True)


def as_replicator_error(error: BaseException) -> ReplicatorError:
    """`error` itself, or a bug's error for an unexpected exception."""
    from replicator_sdk.errors import BugError, ReplicatorError

    if isinstance(error, ReplicatorError):
        return error
    text = " ".join(str(error).split())
    return BugError(
        f"unexpected {type(error).__name__}" + (f": {text}" if text else ""),
        code=UNEXPECTED,
        hint="run again with --debug and report what it shows",
    )


def error_lines(error: ReplicatorError) -> list[str]:
    """One line; for a pipeline with several problems one more for each."""
    from replicator_runtime.config.problem import InvalidPipelineError

    if isinstance(error, InvalidPipelineError) and len(error.problems) > 1:
        first = f"error {error.code}: {error.where} has {len(error.problems)} problems. Next: {error.hint}"
        return [redacted(completed(text)) for text in (first, *(f"  {problem}" for problem in error.problems))]
    return [redacted(completed("error " + " ".join(str(error).split()), error.table))]


def error_json(error: ReplicatorError) -> dict[str, Any]:
    """The envelope's `error`."""
    from replicator_runtime.config.problem import InvalidPipelineError

    shown: dict[str, Any] = {
        "code": error.code,
        "class": error.error_class,
        "message": error.message,
        "hint": completed(error.hint, error.table),
        "doc_url": f"{ERROR_PAGE}#{error.code.lower()}",
        "table": error.table,
        "position": error.position,
    }
    if path := getattr(error, "path", ""):
        shown["path"] = path
    if isinstance(error, InvalidPipelineError):
        shown["problems"] = [problem.to_json() for problem in error.problems]
    return shown


def redacted(text: str) -> str:
    """`text` without any secret that was resolved."""
    from replicator_runtime.observability.redaction import redact

    return redact(text)


def _redacted_strings(value: Any) -> Any:
    """`value` with every text in it redacted; keys stay, since a table may well be called `token`."""
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, dict):
        return {key: _redacted_strings(inner) for key, inner in value.items()}
    return [_redacted_strings(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def printable(text: str) -> str:
    """`text` with control characters written out, so that a table's name cannot control a terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def columns(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Headings and rows as aligned lines; empty cells as `-`."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(len(row[i]) for row in [list(headings), *cells]) for i in range(len(headings))]
    right = [bool(rows) and all(_is_number(row[i]) for row in rows) for i in range(len(headings))]

    def joined(row: Sequence[str]) -> str:
        placed = (c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True))
        return "  ".join(placed).rstrip()

    return [joined([heading.upper() for heading in headings]), *map(joined, cells)]


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def _cell(value: object) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.1f}" if isinstance(value, float) else printable(str(value)).replace("\n", " ")
