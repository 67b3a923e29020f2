"""Says beside a run what the archive has after a position, and how late the archive itself is."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from replicator_sdk.discovery.source_health import HealthProbe, SourceHealth
from replicator_source_archive.offset import ArchiveOffset

if TYPE_CHECKING:
    from collections.abc import Mapping

    from replicator_sdk import Offset, TableId
    from replicator_source_archive.manifests import Manifests

_AT_ONCE: Final = 64
_MOST: Final = 256
_FLUSH_SECONDS: Final = 60.0
"""Of archives whose manifests do not say it."""
_DAY: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class _Known:
    """What is kept of a manifest.

    Attributes:
        at: When it was written, in seconds since 1970.
        newest: When the newest change in it was committed, likewise; None when it has none, or that is not known.
        flush_seconds: Within that time another one follows while there are changes.
        keep_seconds: So long after `at` it is deleted; None for never.
        entries: Changes and bytes of each entry; the bytes are None where the manifest does not say them.
    """

    at: float
    newest: float | None
    flush_seconds: float
    keep_seconds: float | None
    entries: tuple[tuple[int, int | None], ...]

    @property
    def late(self) -> float | None:
        """How late the archive was when it was written; None when that is not known, or is over: nothing has followed for long."""
        if self.newest is None or time.time() - self.at > 2 * self.flush_seconds:
            return None
        return max(0.0, self.at - self.newest)


class ArchiveHealthProbe(HealthProbe):
    """See `HealthProbe`. A manifest is read once, some hundred at each call.

    Args:
        manifests: The archive's.
    """

    def __init__(self, manifests: Manifests) -> None:
        self._manifests = manifests
        self._known: dict[int, _Known] = {}
        self._newest: _Known | None = None
        self._last = 0
        """The number of the newest one."""

    def ask(self, offset: Offset | None, late: Mapping[TableId, Offset] | None = None) -> SourceHealth:  # noqa: ARG002 - none is
        """See `DeltaSource.health`; where very much waits, the first answers have a part of it."""
        self._manifests.owner()  # a place that is not there would look like one where nothing waits
        if offset is None:
            return SourceHealth()
        assert isinstance(offset, ArchiveOffset)
        self._known = {number: known for number, known in self._known.items() if number >= offset.manifest}
        if self._last < offset.manifest - 1:
            self._last, self._newest = offset.manifest - 1, self._read(offset.manifest - 1)
        is_end = self._read_on(offset.manifest)
        waiting = [entry for number, known in self._known.items() for entry in _after(offset, number, known)]
        sizes = [size for _, size in waiting]
        first = self._known.get(offset.manifest)
        left = None if first is None or first.keep_seconds is None else first.at + first.keep_seconds - time.time()
        keeps = first or self._newest
        return SourceHealth(
            waiting_bytes=None if None in sizes else sum(size or 0 for size in sizes),
            waiting_changes=sum(changes for changes, _ in waiting),
            retention_seconds=None if keeps is None else keeps.keep_seconds,
            seconds_left=None if left is None else max(0.0, left),
            limited_by="" if left is None else "archive.keepDays of the pipeline that writes the archive",
            late_seconds=self._newest.late if is_end and self._newest is not None else None,
        )

    def close(self) -> None:
        """There is nothing to release."""

    def _read_on(self, first: int) -> bool:
        """Read the manifests that follow those which are known. Returns whether the end was reached."""
        for _ in range(_MOST // _AT_ONCE):
            following = first + len(self._known)
            last = following + (_AT_ONCE if self._known else 1)  # mostly none follows
            for number in range(following, last):
                if (known := self._read(number)) is None:
                    return True
                self._known[number] = self._newest = known
                self._last = number
        return False

    def _read(self, number: int) -> _Known | None:
        manifest = self._manifests.read(number)
        return None if manifest is None else _known_of(manifest)


def _known_of(manifest: dict[str, Any]) -> _Known:
    entries = manifest["entries"]
    committed = [entry["committedAt"] for entry in entries if entry.get("committedAt", -1) >= 0]
    keep = manifest.get("keepDays")
    return _Known(
        manifest["at"],
        max(committed) / 1e6 if committed else None,
        manifest.get("flushSeconds", _FLUSH_SECONDS),
        None if keep is None else keep * _DAY,
        tuple(_size_of(entry) for entry in entries),
    )


def _size_of(entry: dict[str, Any]) -> tuple[int, int | None]:
    """Changes and bytes of an entry; a change of structure, or a copy, is one."""
    return (entry["rows"], entry.get("bytes")) if entry["kind"] == "changes" else (1, 0)


def _after(offset: ArchiveOffset, number: int, known: _Known) -> tuple[tuple[int, int | None], ...]:
    return known.entries[offset.entry if number == offset.manifest else 0 :]
