"""The lines that runs of a pipeline have logged, a page at a time, the newest first."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from replicator_runtime.observability.log_reading import Wanted, parsed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from replicator_state import LogFolder

_READ_AT_MOST: Final = 16 << 20
"""Bytes for one page: a page that ends there says from where the next one goes on."""


def page_of_lines(
    folder: LogFolder, wanted: Wanted, text: str, before: datetime | None, limit: int
) -> tuple[list[Mapping[str, Any]], str | None]:
    """The newest lines that are wanted, the newest first, and before what the next page begins.

    Args:
        folder: Where they are.
        wanted: Which level and table.
        text: Only lines with this text in them; all when empty.
        before: Only earlier lines; the newest when None. Without a zone it is in UTC.
        limit: So many at most.

    Returns:
        The lines, and the time before which there may be more; None when there are none.

    Raises:
        ReplicatorError: RPL-7104 or RPL-7105 when the store cannot be read.
    """
    found: list[Mapping[str, Any]] = []
    read = 0
    until = before if before is None or before.tzinfo is not None else before.replace(tzinfo=UTC)
    for lines, size in _files(folder, until):
        read += size
        oldest = None if until is None else until.isoformat()
        for line in reversed(lines):
            known = parsed(line)
            if known is None or not _is_before(known, until):
                continue
            oldest = str(known.get("ts") or oldest)
            if wanted.accepts(known) and (not text or text.casefold() in line.decode("utf-8", "replace").casefold()):
                found.append(known)
                if len(found) == limit:
                    return found, oldest
        if read >= _READ_AT_MOST:
            return found, oldest
    return found, None


def _files(folder: LogFolder, until: datetime | None) -> Iterator[tuple[list[bytes], int]]:
    """The whole lines of each file that may have some, the newest file first, and its size."""
    for file in reversed(folder.files("run")):
        if until is None or file.began < until:
            content = folder.read(file.name)
            yield content[: content.rfind(b"\n") + 1].splitlines(), len(content)


def _is_before(line: Mapping[str, Any], until: datetime | None) -> bool:
    if until is None:
        return True
    try:
        return datetime.fromisoformat(str(line.get("ts", ""))) < until
    except ValueError:
        return False
