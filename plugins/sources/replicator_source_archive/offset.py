"""Offsets: the entry of a manifest that is read next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from replicator_sdk import Offset
from replicator_sdk.errors import NeedsUserError


@dataclass(frozen=True, slots=True)
class ArchiveOffset(Offset):
    """Before the entry `entry` of the manifest `manifest`, which may not be there yet. After a manifest's last entry the next manifest's first one comes.

    Attributes:
        manifest: Its number.
        entry: The entry's rank in it, from 0.
        written: When the manifest before was written, microseconds since 1970 UTC; 0 when unknown. It shows that the archive is
            another one; offsets compare without it.
    """

    manifest: int
    entry: int = 0
    written: int = 0

    def fields(self) -> Mapping[str, bytes]:
        """Each eight bytes, big-endian."""
        return {name: getattr(self, name).to_bytes(8, "big") for name in ("manifest", "entry", "written")}

    @classmethod
    def from_fields(cls, fields: Mapping[str, bytes]) -> Self:
        """The inverse of `fields`.

        Raises:
            NeedsUserError: RPL-3551 when the fields are another source's.
        """
        if set(fields) != {"manifest", "entry", "written"} or any(len(value) != 8 for value in fields.values()):
            raise NeedsUserError(
                f"a saved offset with the fields {sorted(fields)} does not belong to an archive",
                code="RPL-3551",
                hint="use another pipeline name, or the source that the offset was saved for",
            )
        return cls(*(int.from_bytes(fields[name], "big") for name in ("manifest", "entry", "written")))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ArchiveOffset) and (self.manifest, self.entry) == (other.manifest, other.entry)

    def __hash__(self) -> int:
        return hash((self.manifest, self.entry))

    def __lt__(self, other: Any) -> bool:
        if not isinstance(other, ArchiveOffset):
            return NotImplemented
        return (self.manifest, self.entry) < (other.manifest, other.entry)

    def __str__(self) -> str:
        return f"{self.manifest}/{self.entry}"
