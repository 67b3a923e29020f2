"""The files of a lane: what their names say, and how their content is checked.

An entry is one file, and parts where it is large; the parts are written first, so an entry that exists is whole. Its name has
where its content begins and ends, so a lane is put together from names alone.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from replicator_sdk.authoring.stored_form import check_form, release
from replicator_sdk.errors import SnapshotNeededError

if TYPE_CHECKING:
    from replicator_sdk import Position

_MAGIC: Final = b"RLN1"
_FORM: Final = 1
_LENGTH: Final = struct.Struct(">I")
_NAME = re.compile(r"([0-9a-f]+)\.([0-9a-f]+)-([0-9a-f]+)\.(\d+)\.(\d+)\.(\d+)\.(\d+)\.([0-9a-f]+)\.entry")


@dataclass(frozen=True, slots=True)
class LaneEntry:
    """One entry, as its name says it.

    Attributes:
        lane: The lane's name.
        begins: Names the position after which its content begins.
        ends: Names the position at which its content ends.
        rows: How many changes; 0 for a change of structure.
        nbytes: Stored bytes, with its parts.
        at: When it was written, in seconds since 1970.
        parts: How many files belong to it beside the entry itself.
        token: Of this entry alone.
    """

    lane: str
    begins: str
    ends: str
    rows: int
    nbytes: int
    at: int
    parts: int
    token: str

    @property
    def name(self) -> str:
        """The name of the file."""
        numbers = f"{self.rows}.{self.nbytes}.{self.at}.{self.parts}"
        return f"{self.lane}.{self.begins}-{self.ends}.{numbers}.{self.token}.entry"

    @classmethod
    def of(cls, name: str) -> LaneEntry | None:
        """The entry of that name; None for a part, or a file of another kind."""
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        lane, begins, ends, rows, nbytes, at, parts, token = found.groups()
        return cls(lane, begins, ends, int(rows), int(nbytes), int(at), int(parts), token)


def part_name(lane: str, token: str, number: int) -> str:
    """The name of one of an entry's parts."""
    return f"{lane}.{token}.{number}.part"


def position_name(position: Position) -> str:
    """A short name of a position; equal positions have equal names."""
    return hashlib.sha256(json.dumps(position.to_json(), sort_keys=True).encode()).hexdigest()[:24]


def packed(header: dict[str, Any], payload: bytes) -> bytes:
    """The content of a file."""
    head = json.dumps({"version": _FORM, "release": release(), **header}).encode()
    content = b"".join((_MAGIC, _LENGTH.pack(len(head)), head, payload))
    return content + _LENGTH.pack(zlib.crc32(content))


def unpacked(name: str, content: bytes) -> tuple[dict[str, Any], bytes]:
    """Header and payload of a file.

    Raises:
        SnapshotNeededError: RPL-4131 when the file is damaged.
        NeedsUserError: RPL-7161 when a later release wrote it.
    """
    if not is_whole(content):
        raise damaged(name)
    start = len(_MAGIC) + _LENGTH.size
    [length] = _LENGTH.unpack_from(content, len(_MAGIC))
    header: dict[str, Any] = json.loads(content[start : start + length])
    check_form(f"the lane's file {name}", header["version"], _FORM, header["release"])
    return header, content[start + length : -_LENGTH.size]


def is_whole(content: bytes) -> bool:
    """Whether the checksum is right."""
    return (
        len(content) > len(_MAGIC) + 2 * _LENGTH.size
        and content.startswith(_MAGIC)
        and _LENGTH.unpack(content[-_LENGTH.size :])[0] == zlib.crc32(content[: -_LENGTH.size])
    )


def damaged(name: str) -> SnapshotNeededError:
    """The error for a file that is damaged, or was deleted by another program."""
    return SnapshotNeededError(
        f"the lane's file {name} is damaged or gone",
        code="RPL-4131",
        hint="nothing to do: the table is copied again",
    )
