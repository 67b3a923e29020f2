"""What an operator asks for, and what happened to it; the form of both files."""

from __future__ import annotations

import enum
import getpass
import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Request:
    """A command to a replicator.

    Attributes:
        request_id: A ULID: requests sort by the time of their making.
        command: Such as `table.resync`.
        arguments: In JSON values, as the command defines them.
        by: Who asked, as `user@host`.
        at: When, UTC.
    """

    request_id: str
    command: str
    arguments: Mapping[str, Any]
    by: str
    at: datetime

    def to_bytes(self) -> bytes:
        """The file's content."""
        return _dump(
            id=self.request_id, command=self.command, arguments=dict(self.arguments), by=self.by, at=self.at.isoformat()
        )

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """The inverse of `to_bytes`.

        Raises:
            ValueError: When it is not the content of such a file.
        """
        try:
            value = json.loads(content)
            tables = value["arguments"].get("tables", [])
            if not (isinstance(tables, list) and all(isinstance(table, str) for table in tables)):
                raise TypeError
            return cls(
                str(value["id"]),
                str(value["command"]),
                dict(value["arguments"]),
                str(value["by"]),
                datetime.fromisoformat(value["at"]),
            )
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"no request: {type(error).__name__}") from error


class OutcomeState(enum.StrEnum):
    """How a request ended."""

    DONE = "done"
    """Everything it asks for was done, or had been done."""
    REFUSED = "refused"
    """Nothing was done; the outcome says why."""
    FAILED = "failed"
    """It ended by a fault of the program; what it had done by then stays."""
    WITHDRAWN = "withdrawn"
    """Nothing was done: who asked did not wait any longer, and no run had begun."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What happened to a request.

    Attributes:
        state: How it ended.
        at: When, UTC.
        by: Who wrote this: the run, or who withdrew it.
        lines: For people, what was done, a line for each part of it.
        code: Why it was refused or failed; empty otherwise.
        message: The same in words.
        hint: What to do next.
        data: What was done, in JSON values as the command defines them.
        table: The table that it was refused for; empty for none.
    """

    state: OutcomeState
    at: datetime
    by: str
    lines: tuple[str, ...] = field(default=())
    code: str = ""
    message: str = ""
    hint: str = ""
    data: Mapping[str, Any] = field(default_factory=dict, hash=False)
    table: str = ""

    def to_bytes(self) -> bytes:
        """The file's content."""
        return _dump(
            state=self.state.value,
            at=self.at.isoformat(),
            by=self.by,
            lines=list(self.lines),
            code=self.code,
            message=self.message,
            hint=self.hint,
            **({"data": dict(self.data)} if self.data else {}),
            **({"table": self.table} if self.table else {}),
        )

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """The inverse of `to_bytes`.

        Raises:
            ValueError: When it is not the content of such a file.
        """
        try:
            value = json.loads(content)
            return cls(
                OutcomeState(value["state"]),
                datetime.fromisoformat(value["at"]),
                str(value["by"]),
                tuple(map(str, value["lines"])),
                str(value["code"]),
                str(value["message"]),
                str(value["hint"]),
                dict(value.get("data") or {}),
                str(value.get("table", "")),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"no outcome: {type(error).__name__}") from error


def who() -> str:
    """This process' user, as `user@host`."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def _dump(**values: Any) -> bytes:
    return json.dumps(values, ensure_ascii=False, indent=2).encode() + b"\n"
