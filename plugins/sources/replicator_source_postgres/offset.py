"""Offsets: positions between two transactions of the log."""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from replicator_sdk.errors import HistoryLostError
from replicator_sdk.offset import Offset

BEGIN: Final = (1 << 31) - 1
"""The last step at a log position: the begin of the transaction whose commit record starts there."""

SETTLED: Final = 1 << 16
"""The step at a log position once everything before it is emitted, also what only the catalogue shows."""


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """A transaction's commit record; two different histories of a server do not have the same one at the same position.

    Attributes:
        lsn: Where the record starts.
        timestamp: When the server wrote it, microseconds since 1970 UTC.
    """

    lsn: int
    timestamp: int


@dataclass(frozen=True, slots=True, eq=False)
class PostgresOffset(Offset):
    """A position between two transactions. Offsets compare by `lsn`, then by `step`.

    Attributes:
        lsn: The end of the last whole transaction's commit record (or of log that holds no transaction's end). A
            transaction is before it exactly when its own end is not greater.
        step: Rank among the offsets at `lsn`: 0 for the log's own, 1 and more after schema changes that the log does not
            hold, `SETTLED` when no such change was left, `BEGIN` before the transaction whose commit record starts at `lsn`.
        timeline: The timeline that the log up to `lsn` belongs to; 0 unknown, as in offsets of older versions.
        commit: A commit record that is in the log at this offset: that of the last transaction before it or, at `BEGIN`,
            of the one that follows. None unknown.
    """

    lsn: int
    step: int = 0
    timeline: int = 0
    commit: CommitRecord | None = None

    def fields(self) -> Mapping[str, bytes]:
        """`lsn` as eight bytes, big-endian; the others likewise, where they are not zero or None."""
        fields = {"lsn": self.lsn.to_bytes(8, "big")}
        if self.step:
            fields["step"] = self.step.to_bytes(4, "big")
        if self.timeline:
            fields["timeline"] = self.timeline.to_bytes(4, "big")
        if self.commit is not None:
            fields["commit"] = struct.pack(">Qq", self.commit.lsn, self.commit.timestamp)
        return fields

    @classmethod
    def from_fields(cls, fields: Mapping[str, bytes]) -> Self:
        """The inverse of `fields`; also reads what older versions stored, `lsn` alone.

        Raises:
            HistoryLostError: When the fields are another source's.
        """
        lengths = {name: len(value) for name, value in fields.items()}
        if "lsn" not in lengths or not lengths.items() <= _LENGTHS.items():
            raise HistoryLostError(
                f"the saved offset has the fields {sorted(fields)}, which are not those of a Postgres source",
                code="RPL-3201",
                hint="give this pipeline a name of its own, or use the source that its state was created with",
            )
        commit = CommitRecord(*struct.unpack(">Qq", fields["commit"])) if "commit" in fields else None
        lsn, step, timeline = (int.from_bytes(fields.get(name, b""), "big") for name in ("lsn", "step", "timeline"))
        return cls(lsn, step, timeline, commit)

    def to_json(self) -> dict[str, str]:
        """The form stored in state."""
        return {name: base64.b64encode(value).decode() for name, value in self.fields().items()}

    @classmethod
    def from_json(cls, stored: Mapping[str, str]) -> Self:
        """The inverse of `to_json`."""
        return cls.from_fields({name: base64.b64decode(value) for name, value in stored.items()})

    @classmethod
    def parse(cls, text: str) -> Self:
        """The offset written `0/16B3748`."""
        high, _, low = text.partition("/")
        return cls((int(high, 16) << 32) | int(low, 16))

    @property
    def position(self) -> tuple[int, int]:
        """The values by which offsets compare."""
        return self.lsn, self.step

    def __lt__(self, other: Any) -> bool:
        return self.position < other.position if isinstance(other, PostgresOffset) else NotImplemented

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PostgresOffset) and self.position == other.position

    def __hash__(self) -> int:
        return hash(self.position)

    def __str__(self) -> str:
        if self.step == BEGIN:
            return f"{lsn_text(self.lsn)}.begin"
        return f"{lsn_text(self.lsn)}.{self.step}" if self.step else lsn_text(self.lsn)


_LENGTHS = {"lsn": 8, "step": 4, "timeline": 4, "commit": 16}


def lsn_text(lsn: int) -> str:
    """A log position as Postgres writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"
