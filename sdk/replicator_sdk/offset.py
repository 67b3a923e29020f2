"""Offsets and positions: places in a source's log."""

from __future__ import annotations

import base64
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from replicator_sdk.errors import HistoryLostError


@functools.total_ordering
class Offset(ABC):
    """A place between two transactions of one source's log, from which the source can resume.

    Defined by its source, comparable only with offsets of the same source. An offset is the place *after* a committed
    transaction: everything up to it has been read, nothing after it has. A frozen dataclass, so that equal places
    are equal and hash alike. After the same offset a source must re-emit the same changes in the same order with the same
    commits between them; how it cuts windows may differ.
    """

    __slots__ = ()

    @abstractmethod
    def fields(self) -> Mapping[str, bytes]:
        """The stored form: key → bytes, small, stable over releases, since it is stored in the offset file."""

    @classmethod
    @abstractmethod
    def from_fields(cls, fields: Mapping[str, bytes]) -> Self:
        """The offset that `fields` stored.

        Raises:
            ReplicatorError: When the fields are not of this source.
        """

    @abstractmethod
    def __lt__(self, other: Any) -> bool:
        """Whether this offset comes before `other` in source order."""

    @abstractmethod
    def __str__(self) -> str:
        """The place as the source's own people write it, e.g. `0/16B3748`."""


@dataclass(frozen=True, slots=True)
class NumberOffset(Offset):
    """An offset that is one whole number, for sources that number their transactions or changes."""

    number: int

    def fields(self) -> Mapping[str, bytes]:
        """The number as eight bytes, big-endian."""
        return {"number": self.number.to_bytes(8, "big", signed=True)}

    @classmethod
    def from_fields(cls, fields: Mapping[str, bytes]) -> Self:
        """The inverse of `fields`."""
        if set(fields) != {"number"} or len(fields["number"]) != 8:
            raise HistoryLostError(
                "the stored offset is not a number",
                code="RPL-3901",
                hint="point the pipeline back at the source it was started with",
            )
        return cls(int.from_bytes(fields["number"], "big", signed=True))

    def __lt__(self, other: Any) -> bool:
        return isinstance(other, NumberOffset) and self.number < other.number

    def __str__(self) -> str:
        return str(self.number)


@dataclass(frozen=True, slots=True)
class Position:
    """How far one table, or the whole replicator, has come.

    Attributes:
        offset: The last transaction that is applied as a whole.
        events_after: How many events (changes and DDL, over all tables) of the transactions after `offset` are applied
            as well. Zero except when a schema change inside a transaction cut it in two.
    """

    offset: Offset
    events_after: int = 0

    def to_json(self) -> dict[str, Any]:
        """The JSON form: the offset's fields in Base64, and the events after it."""
        return {"offset": offset_to_json(self.offset), "eventsAfter": self.events_after}

    @classmethod
    def from_json(cls, value: Mapping[str, Any], read_offset: Callable[[Mapping[str, bytes]], Offset]) -> Position:
        """The inverse of `to_json`; `read_offset` makes an offset of its fields."""
        return cls(offset_from_json(value["offset"], read_offset), value["eventsAfter"])

    def __lt__(self, other: Position) -> bool:
        return (self.offset, self.events_after) < (other.offset, other.events_after)

    def __le__(self, other: Position) -> bool:
        return (self.offset, self.events_after) <= (other.offset, other.events_after)

    def __str__(self) -> str:
        return f"{self.offset}+{self.events_after}" if self.events_after else str(self.offset)


def offset_to_json(offset: Offset) -> dict[str, str]:
    """The offset's fields as JSON: each in Base64."""
    return {name: base64.b64encode(content).decode() for name, content in offset.fields().items()}


def offset_from_json(value: Mapping[str, str], read_offset: Callable[[Mapping[str, bytes]], Offset]) -> Offset:
    """The inverse of `offset_to_json`; `read_offset` makes an offset of its fields."""
    return read_offset({name: base64.b64decode(text) for name, text in value.items()})
