"""What the settings `partitioning` and `sortOrder` say of columns, as text in and as terms out; needs no other library."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_SIZED: Final = re.compile(r"(bucket|truncate)\(\s*(\d{1,9})\s*,\s*(.+?)\s*\)", re.IGNORECASE)
_TIMED: Final = re.compile(r"(year|month|day|hour)\(\s*(.+?)\s*\)", re.IGNORECASE)
_CALL: Final = re.compile(r"\w+\(.*\)")
_SORTED: Final = re.compile(r"(.+?)(?:\s+(asc|desc))?(?:\s+nulls\s+(first|last))?", re.IGNORECASE)
TIMES: Final = ("year", "month", "day", "hour")


@dataclass(frozen=True, slots=True)
class PartitionTerm:
    """One part of a table's partitioning. Immutable.

    Attributes:
        transform: As Iceberg writes it, such as `bucket[16]`.
        column: The column's name.
    """

    transform: str
    column: str

    @property
    def kind(self) -> tuple[str, str]:
        """Equal for terms that Iceberg takes for redundant beside each other."""
        return ("time" if self.transform in TIMES else self.transform, self.column)


@dataclass(frozen=True, slots=True)
class SortTerm:
    """One part of a table's sort order. Immutable.

    Attributes:
        column: The column's name.
        direction: `asc` or `desc`.
        nulls: `nulls-first` or `nulls-last`.
    """

    column: str
    direction: str
    nulls: str


def partition_terms(texts: Iterable[str]) -> tuple[PartitionTerm, ...]:
    """The terms of a setting such as `["region", "bucket(16, id)", "day(at)"]`.

    Raises:
        ValueError: When one is no transform that Iceberg knows, or two are redundant.
    """
    terms = tuple(map(_partition_term, texts))
    seen: set[tuple[str, str]] = set()
    for term in terms:
        if term.kind in seen:
            raise ValueError(f"there are two partition transforms of one kind for the column {term.column!r}")
        seen.add(term.kind)
    return terms


def _partition_term(text: str) -> PartitionTerm:
    text = text.strip()
    if found := _SIZED.fullmatch(text):
        if int(found[2]) < 1:
            raise ValueError(f"the number in {text!r} must be at least 1")
        return PartitionTerm(f"{found[1].lower()}[{int(found[2])}]", found[3])
    if found := _TIMED.fullmatch(text):
        return PartitionTerm(found[1].lower(), found[2])
    if not text or _CALL.fullmatch(text):
        raise ValueError(
            f"{text!r} is no partition transform; there are a column's name, bucket(16, id), truncate(4, name), year(at), month(at),"
            " day(at) and hour(at)"
        )
    return PartitionTerm("identity", text)


def sort_terms(texts: Iterable[str]) -> tuple[SortTerm, ...]:
    """The terms of a setting such as `["region", "at desc", "id asc nulls last"]`; NULL is the smallest value unless it says otherwise.

    Raises:
        ValueError: When one has no column, or a column is there twice.
    """
    terms = tuple(map(_sort_term, texts))
    if len({term.column for term in terms}) < len(terms):
        raise ValueError("a column is there twice in a sort order")
    return terms


def _sort_term(text: str) -> SortTerm:
    found = _SORTED.fullmatch(text.strip())
    if found is None:
        raise ValueError("a sort order has a part without a column")
    direction = (found[2] or "asc").lower()
    nulls = (found[3] or ("first" if direction == "asc" else "last")).lower()
    return SortTerm(found[1], direction, f"nulls-{nulls}")
