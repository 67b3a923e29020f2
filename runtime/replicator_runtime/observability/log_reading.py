"""Reads the lines that runs have kept beside the state, while a run works and afterwards."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from replicator_state import LogFile, LogFolder, LogKind

LEVELS: Final = ("debug", "info", "warning", "error", "critical")
_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd])")
_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_NOT_SHOWN: Final = frozenset({"ts", "level", "event", "pipeline", "logger", "run_id", "exception"})

Line = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which lines are read.

    Attributes:
        table: Those of this table: its name, with or without its schema and database; all when empty.
        level: Those of this level and above.
        since: Those that are not older; all when None.
    """

    table: str = ""
    level: str = "debug"
    since: datetime | None = None

    def accepts(self, line: Line) -> bool:
        """Whether the line is wanted."""
        level = str(line.get("level", "info"))
        if level in LEVELS and LEVELS.index(level) < LEVELS.index(self.level):
            return False
        if self.since is not None and (at := _time(line)) is not None and at < self.since:
            return False
        table = str(line.get("table", ""))
        return not self.table or table == self.table or table.endswith(f".{self.table}")


class LogReader:
    """Reads the newest lines, then those that come. Used by one thread.

    Args:
        folder: Where they are.
        kind: Those of runs, or Spark's own.
    """

    def __init__(self, folder: LogFolder, kind: LogKind) -> None:
        self._folder, self._kind = folder, kind
        self._read_until: dict[str, int] = {}

    def newest(self, count: int | None, accepts: Callable[[bytes], bool], since: datetime | None = None) -> list[bytes]:
        """The newest lines, the oldest of them first.

        Args:
            count: At most so many; all when None.
            accepts: Which ones.
            since: None is older; whole files before it are not read.

        Raises:
            ReplicatorError: As the store fails (RPL-7104, RPL-7105).
        """
        files = self._folder.files(self._kind)
        self._read_until = {file.name: file.size for file in files}
        found: list[bytes] = []
        for index in range(len(files) - 1, -1, -1):
            is_older = index + 1 < len(files) and since is not None and files[index + 1].began < since
            if is_older or (count is not None and len(found) >= count):
                break
            found = [*filter(accepts, self._lines(files[index], 0)), *found]
        return found if count is None else found[max(0, len(found) - count) :]

    def more(self) -> Iterator[bytes]:
        """The lines that were written since the last call.

        Raises:
            ReplicatorError: As the store fails (RPL-7104, RPL-7105).
        """
        files = self._folder.files(self._kind)
        self._read_until = {name: at for name, at in self._read_until.items() if name in {f.name for f in files}}
        for file in files:
            at = self._read_until.get(file.name, 0)
            if file.size > at:
                yield from self._lines(file, at)

    def _lines(self, file: LogFile, begin: int) -> list[bytes]:
        """The whole lines from there on; one that is being written is left for later."""
        content = self._folder.read(file.name)
        end = content.rfind(b"\n") + 1
        self._read_until[file.name] = max(begin, end)
        return content[begin:end].splitlines()


def parsed(line: bytes) -> Line | None:
    """The line's keys and values; None for one that is damaged, as after a power failure."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def since(text: str) -> datetime:
    """The time that `15m`, `2h`, `3d` or a time in ISO 8601 means; one without a zone is in UTC.

    Raises:
        ValueError: When it is neither.
    """
    if found := _SPAN.fullmatch(text.strip()):
        return datetime.now(UTC) - timedelta(seconds=float(found[1]) * _SECONDS[found[2]])
    at = datetime.fromisoformat(text.strip())
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def words(line: Line) -> Iterator[str]:
    """The line for people: time, level, event, then the rest; the calls of an exception on lines of their own."""
    at = _time(line)
    when = str(line.get("ts", "")) if at is None else f"{at:%Y-%m-%d %H:%M:%S}"
    rest = [f"{key}={_value(value)}" for key, value in line.items() if key not in _NOT_SHOWN]
    if line.get("event") == "run.began":
        rest.insert(0, f"run={line.get('run_id', '')}")
    yield " ".join([when, str(line.get("level", "")).upper().ljust(7), str(line.get("event", "")), *rest])
    if exception := line.get("exception"):
        yield from (f"    {text}" for text in str(exception).splitlines())


def _value(value: Any) -> str:
    if isinstance(value, str) and value and " " not in value and '"' not in value:
        return value
    return json.dumps(value, ensure_ascii=False)


def _time(line: Line) -> datetime | None:
    try:
        return datetime.fromisoformat(str(line.get("ts", "")))
    except ValueError:
        return None
