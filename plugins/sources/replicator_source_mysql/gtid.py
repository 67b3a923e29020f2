"""Global transaction identifiers: which transactions a server, or a replica of it, has executed.

MySQL writes a set, `uuid:1-77:80,uuid:tag:1-3`; MariaDB writes the last one of every domain, `0-1-5,2-1-9`. Both grow along
one server's log, so the number of transactions in them orders positions also between servers that share a history.
"""

from __future__ import annotations

import bisect
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

from replicator_sdk.errors import BugError

_UUID = re.compile(r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_MARIADB = re.compile(r"^(\d+)-(\d+)-(\d+)$")


@dataclass(frozen=True, slots=True)
class Gtid:
    """One transaction.

    Attributes:
        source: MySQL: the server's UUID, with `:tag` after it where the transaction has a tag. MariaDB: the domain.
        number: Its number there, from 1.
        server: MariaDB only: the server id.
    """

    source: str
    number: int
    server: int = 0

    def __str__(self) -> str:
        return f"{self.source}-{self.server}-{self.number}" if self.source.isdigit() else f"{self.source}:{self.number}"


class GtidProgress(ABC):
    """Which transactions are done. Mutable; copy before keeping one."""

    @abstractmethod
    def add(self, gtid: Gtid) -> None:
        """The transaction is done as well."""

    @abstractmethod
    def covers(self, other: Self) -> bool:
        """Whether everything in `other` is in this."""

    @property
    @abstractmethod
    def count(self) -> int:
        """How many transactions; grows with every `add` of a new one."""

    @abstractmethod
    def copy(self) -> Self:
        """An independent copy."""

    @abstractmethod
    def __bool__(self) -> bool:
        """Whether any transaction is done."""

    @abstractmethod
    def __str__(self) -> str:
        """The server's own notation, sorted, so that equal sets have equal texts."""


@dataclass(slots=True)
class GtidSet(GtidProgress):
    """MySQL's set: for every source its intervals, both ends included, ascending, not touching."""

    intervals: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Self:
        """The set that `text` writes.

        Raises:
            BugError: When it is no GTID set.
        """
        found = cls()
        for part in filter(None, (p.strip() for p in text.replace("\n", "").lower().split(","))):
            uuid, *rest = part.split(":")
            if not _UUID.match(uuid):
                raise _unreadable(text)
            source = uuid
            for piece in rest:
                if not piece[:1].isdigit():
                    source = f"{uuid}:{piece}"
                    continue
                first, _, last = piece.partition("-")
                found._include(source, int(first), int(last or first))
        return found

    def add(self, gtid: Gtid) -> None:
        """The transaction is done as well."""
        spans = self.intervals.setdefault(gtid.source, [])
        if spans and spans[-1][1] + 1 == gtid.number:
            spans[-1] = (spans[-1][0], gtid.number)
        else:
            self._include(gtid.source, gtid.number, gtid.number)

    def _include(self, source: str, first: int, last: int) -> None:
        spans = self.intervals.setdefault(source, [])
        low = bisect.bisect_left(spans, first - 1, key=lambda span: span[1])
        high = bisect.bisect_right(spans, last + 1, key=lambda span: span[0])
        if low < high:
            first, last = min(first, spans[low][0]), max(last, spans[high - 1][1])
        spans[low:high] = [(first, last)]

    def covers(self, other: Self) -> bool:
        """Whether every transaction of `other` is in this set."""
        return all(
            any(low <= first and last <= high for low, high in self.intervals.get(source, ()))
            for source, spans in other.intervals.items()
            for first, last in spans
        )

    @property
    def count(self) -> int:
        """How many transactions."""
        return sum(last - first + 1 for spans in self.intervals.values() for first, last in spans)

    def copy(self) -> GtidSet:
        """An independent copy."""
        return GtidSet({source: list(spans) for source, spans in self.intervals.items()})

    def __bool__(self) -> bool:
        return bool(self.intervals)

    def __str__(self) -> str:
        return ",".join(
            ":".join([source, *(f"{first}-{last}" if first < last else str(first) for first, last in spans)])
            for source, spans in sorted(self.intervals.items())
        )


@dataclass(slots=True)
class GtidPosition(GtidProgress):
    """MariaDB's position: for every domain the server and number of its last transaction."""

    domains: dict[str, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Self:
        """The position that `text` writes.

        Raises:
            BugError: When it is no GTID position.
        """
        found = cls()
        for part in filter(None, (p.strip() for p in text.split(","))):
            match = _MARIADB.match(part)
            if match is None:
                raise _unreadable(text)
            found.domains[match[1]] = (int(match[2]), int(match[3]))
        return found

    def add(self, gtid: Gtid) -> None:
        """The transaction is the last of its domain."""
        self.domains[gtid.source] = (gtid.server, gtid.number)

    def covers(self, other: Self) -> bool:
        """Whether no domain of `other` has come further, nor as far with another server's transaction.

        Which servers' transactions a domain went through is not known when it has come further here.
        """
        return all(
            domain in self.domains and (self.domains[domain][1] > last[1] or self.domains[domain] == last)
            for domain, last in other.domains.items()
        )

    def ahead_of(self, other: GtidPosition) -> list[str]:
        """The domains that have come further than in `other`, ascending."""
        ahead = (
            domain for domain, (_, number) in self.domains.items() if number > other.domains.get(domain, (0, 0))[1]
        )
        return sorted(ahead, key=int)

    @property
    def count(self) -> int:
        """The sum of the domains' numbers."""
        return sum(number for _, number in self.domains.values())

    def copy(self) -> GtidPosition:
        """An independent copy."""
        return GtidPosition(dict(self.domains))

    def __bool__(self) -> bool:
        return bool(self.domains)

    def __str__(self) -> str:
        ordered = sorted(self.domains.items(), key=lambda item: int(item[0]))
        return ",".join(f"{domain}-{server}-{number}" for domain, (server, number) in ordered)


def parse_gtids(text: str) -> GtidProgress:
    """The progress `text` writes, by its notation; an empty text is MySQL's empty set."""
    first = text.split(",", 1)[0].strip()
    return GtidPosition.parse(text) if _MARIADB.match(first) else GtidSet.parse(text)


class GtidTrail:
    """The progress after each of a window's commits, computed only when it is used."""

    def __init__(self, before: GtidProgress, gtids: Iterable[Gtid | None]) -> None:
        self._before = before
        self._gtids = list(gtids)

    def after(self, index: int) -> GtidProgress:
        """The progress after the commit at `index`."""
        progress = self._before.copy()
        for gtid in self._gtids[: index + 1]:
            if gtid is not None:
                progress.add(gtid)
        return progress


def _unreadable(text: str) -> BugError:
    return BugError(
        f"{text[:80]!r} is no list of GTIDs", code="RPL-3780", hint="report it with the server's name and version"
    )
