"""Offsets: the number of the last change that was read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from replicator_sdk import Offset
from replicator_sdk.errors import NeedsUserError


@dataclass(frozen=True, slots=True)
class SqliteOffset(Offset):
    """After the change `change` of the changelog, which ends a transaction; 0 before the first.

    Attributes:
        change: Its number.
        at: When it was made, microseconds since 1970 UTC; 0 when unknown. It shows that a database was restored when
            another change has the number; offsets compare by number alone.
    """

    change: int
    at: int = 0

    def fields(self) -> Mapping[str, bytes]:
        """Number and time, eight bytes big-endian each."""
        known = {"at": self.at.to_bytes(8, "big")} if self.at else {}
        return {"change": self.change.to_bytes(8, "big"), **known}

    @classmethod
    def from_fields(cls, fields: Mapping[str, bytes]) -> Self:
        """The inverse of `fields`.

        Raises:
            NeedsUserError: RPL-3501 when the fields are another source's.
        """
        if not {"change"} <= set(fields) <= {"change", "at"} or any(len(value) != 8 for value in fields.values()):
            raise NeedsUserError(
                f"a saved offset with the fields {sorted(fields)} does not belong to a SQLite source",
                code="RPL-3501",
                hint="use another pipeline name, or the source that the offset was saved for",
            )
        return cls(int.from_bytes(fields["change"], "big"), int.from_bytes(fields.get("at", b""), "big"))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SqliteOffset) and self.change == other.change

    def __hash__(self) -> int:
        return hash(self.change)

    def __lt__(self, other: Any) -> bool:
        return self.change < other.change if isinstance(other, SqliteOffset) else NotImplemented

    def __str__(self) -> str:
        return str(self.change)
