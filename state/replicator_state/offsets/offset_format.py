"""The offset file: the big-endian layout of `docs/seeds.md#001-replicator`, followed by a checksum.

    sequence number (long) · number of entries (int) · per entry: key length (int), key, value length (int), value
    epoch (long) · saved at, microseconds UTC (long)
    number of state values (int) · per value: name length (int), name, its number (long)
    version (int) · `RPLOFFST` · SHA-256 of everything before (32)

A reader of that layout stops before the second line. Version 1 has no third line. Later versions may change the lines after the
first but keep the last 44 bytes.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from replicator_sdk.errors import BugError, NeedsUserError

VERSION = 2
_WITHOUT_VALUES = 1
_MAGIC = b"RPLOFFST"
_HEAD = struct.Struct(">qi")
_LENGTH = struct.Struct(">i")
_SAVED = struct.Struct(">qq")
_NUMBER = struct.Struct(">q")
_END = struct.Struct(">i8s")
_DIGEST = 32
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONG = 2**63 - 1
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class UnreadableFile:
    """A file that could not be used: its name and why, without any of its content."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class SavedOffset:
    """What is saved when a batch is durable at the target.

    Attributes:
        sequence_number: Number of the last change up to the offset.
        fields: The source's offset as `Offset.fields` gave it.
        saved_at: When, by the clock of the saving host, for people; aware. Never compared.
        epoch: Lease epoch of the run that saved it; set by the store.
        commit_timestamp: The number in the file's name, microseconds; orders the files. Set by the store.
        recovered_from: Newer files that had to be passed over to reach this one; empty when all is well.
        values: The numbers that state values had when it was saved, by name (`StateStore.numbers`): it can be gone on from with
            these values or later ones only. Empty for offsets of version 1.
    """

    sequence_number: int
    fields: Mapping[str, bytes]
    saved_at: datetime
    epoch: int = 0
    commit_timestamp: int = 0
    recovered_from: tuple[UnreadableFile, ...] = ()
    values: Mapping[str, int] = field(default_factory=dict)


class UnreadableError(ValueError):
    """The content is not a whole offset file; the text says why."""


def microseconds(moment: datetime) -> int:
    """Microseconds from 1970 to the aware `moment`, exactly."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def moment(count: int) -> datetime:
    """The inverse of `microseconds`."""
    return _EPOCH + timedelta(microseconds=count)


def encode(offset: SavedOffset) -> bytes:
    """The file's content.

    Raises:
        BugError: RPL-7111 when a number or field cannot be stored.
    """
    _check(offset)
    parts = [_HEAD.pack(offset.sequence_number, len(offset.fields))]
    for key in sorted(offset.fields):
        for part in (key.encode(), bytes(offset.fields[key])):
            parts += (_LENGTH.pack(len(part)), part)
    parts.append(_SAVED.pack(offset.epoch, microseconds(offset.saved_at)))
    parts.append(_LENGTH.pack(len(offset.values)))
    for name in sorted(offset.values):
        parts += (_LENGTH.pack(len(name.encode())), name.encode(), _NUMBER.pack(offset.values[name]))
    parts.append(_END.pack(VERSION, _MAGIC))
    body = b"".join(parts)
    return body + hashlib.sha256(body).digest()


def decode(content: bytes) -> SavedOffset:
    """The offset in a file's content.

    Raises:
        UnreadableError: When it is truncated, changed or something else.
        NeedsUserError: RPL-7160 when it is whole but of a later version of this program.
    """
    body, digest = content[:-_DIGEST], content[-_DIGEST:]
    if len(body) < _HEAD.size + _SAVED.size + _END.size:
        raise UnreadableError(f"{len(content)} bytes are too few")
    if hashlib.sha256(body).digest() != digest:
        raise UnreadableError("the checksum is wrong")
    version, magic = _END.unpack_from(body, len(body) - _END.size)
    if magic != _MAGIC:
        raise UnreadableError("it is not an offset file")
    if version not in {_WITHOUT_VALUES, VERSION}:
        raise NeedsUserError(
            f"an offset file has version {version}, this program knows {VERSION}",
            code="RPL-7160",
            hint="run the version of replicator that wrote it, or a later one",
        )
    parts = _Parts(body[: -_END.size])
    sequence_number, count = parts.numbers(_HEAD)
    fields = _unique([(parts.text(), parts.sized()) for _ in range(max(0, count))])
    epoch, saved_at = parts.numbers(_SAVED)
    values: dict[str, int] = {}
    if version == VERSION:
        (count,) = parts.numbers(_LENGTH)
        values = _unique([(parts.text(), parts.numbers(_NUMBER)[0]) for _ in range(max(0, count))])
    if not parts.ended:
        raise _wrong_lengths()
    return SavedOffset(sequence_number, fields, moment(saved_at), epoch, values=values)


class _Parts:
    """Takes the parts of a file's content one after the other."""

    def __init__(self, body: bytes) -> None:
        self._body, self._place = body, 0

    @property
    def ended(self) -> bool:
        """Whether there is nothing more."""
        return self._place == len(self._body)

    def numbers(self, form: struct.Struct) -> tuple[Any, ...]:
        """The next numbers."""
        return form.unpack(self._take(form.size))

    def sized(self) -> bytes:
        """The next bytes, which follow their length."""
        (length,) = self.numbers(_LENGTH)
        return self._take(length)

    def text(self) -> str:
        """The same as text."""
        try:
            return self.sized().decode()
        except UnicodeDecodeError as error:
            raise UnreadableError("a key is not UTF-8") from error

    def _take(self, size: int) -> bytes:
        end = self._place + size
        if size < 0 or end > len(self._body):
            raise _wrong_lengths()
        taken, self._place = self._body[self._place : end], end
        return taken


def _unique(pairs: list[tuple[str, _Value]]) -> dict[str, _Value]:
    if len(found := dict(pairs)) != len(pairs):
        raise UnreadableError("a key is repeated")
    return found


def _wrong_lengths() -> UnreadableError:
    return UnreadableError("lengths do not add up")


def _check(offset: SavedOffset) -> None:
    problem = ""
    fields: Mapping[Any, Any] = offset.fields  # they are a plugin's, so their types are checked
    if not 0 <= offset.sequence_number <= _LONG:
        problem = "its sequence number is not between 0 and 2^63-1"
    elif offset.saved_at.tzinfo is None:
        problem = "its time has no zone"
    elif not all(isinstance(k, str) and isinstance(v, bytes | bytearray | memoryview) for k, v in fields.items()):
        problem = "its fields are not text to bytes"
    if problem:
        raise BugError(
            f"an offset cannot be saved: {problem}", code="RPL-7111", hint="report it with the source's name"
        )
