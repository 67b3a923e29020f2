"""Parses a column's type as the catalogue writes it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from replicator_sdk.errors import BugError

_SHAPE = re.compile(
    r"^\s*(?P<name>[a-z][a-z0-9 ]*?)(?![a-z0-9])\s*(?:\((?P<inside>.*)\))?\s*(?P<after>[a-z /*!0-9.-]*)\s*$",
    re.DOTALL | re.IGNORECASE,
)
_MEMBER = re.compile(r"\s*'((?:[^'\\]|''|\\.)*)'\s*(?:,|$)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "Z": "\x1a"}


@dataclass(frozen=True, slots=True)
class ColumnType:
    """The parts of a type.

    Attributes:
        name: The type's name in lower case, without attributes: `int`, `decimal`, `enum`, `double`.
        parameters: The numbers in its brackets.
        members: The members of an ENUM or SET, in order.
        is_unsigned: Whether it says UNSIGNED (ZEROFILL implies it).
    """

    name: str
    parameters: tuple[int, ...] = ()
    members: tuple[str, ...] = ()
    is_unsigned: bool = False

    def parameter(self, rank: int, default: int) -> int:
        """A number in the brackets, or `default` when it is not there."""
        return self.parameters[rank] if rank < len(self.parameters) else default


@lru_cache(maxsize=4096)
def parse_column_type(text: str) -> ColumnType:
    """The parts of `text` (`COLUMN_TYPE`, which names every type in one way).

    Raises:
        BugError: When it is no type at all.
    """
    shape = _SHAPE.match(text)
    if shape is None:
        raise BugError(f"{text!r} is not a column type", code="RPL-3730", hint="report it with the server's version")
    words = f"{shape['name']} {shape['after']}".lower().split()
    is_unsigned = "unsigned" in words or "zerofill" in words
    name = " ".join(w for w in shape["name"].lower().split() if w not in {"unsigned", "zerofill", "signed"})
    inside = shape["inside"]
    if name in {"enum", "set"}:
        members = tuple(_unquote(found[1]) for found in _MEMBER.finditer(inside or ""))
        return ColumnType(name, members=members)
    numbers = tuple(int(part) for part in (inside or "").split(",") if part.strip().isdigit())
    return ColumnType(name, numbers, is_unsigned=is_unsigned)


def _unquote(text: str) -> str:
    plain = text.replace("''", "'")
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), plain, flags=re.DOTALL)
