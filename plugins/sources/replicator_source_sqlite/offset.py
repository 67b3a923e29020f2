"""Where a reader stands: the number of the last change it has seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from replicator_sdk import Offset
from replicator_sdk.errors import NeedsUserError


@dataclass(frozen=True, slots=True)
class SqliteOffset(Offset):
    """After the change `change` of the changelog, which ends a transaction; 0 before the first."""

    change: int

    def fields(self) -> Mapping[str, bytes]:
        """One field, eight bytes big-endian."""
        return {"change": self.change.to_bytes(8, "big")}

    @classmethod
    def from_fields(cls, fields: Mapping[str, bytes]) -> Self:
        """The inverse of `fields`.

        Raises:
            NeedsUserError: RPL-3501 when the fields are another source's.
        """
        if set(fields) != {"change"} or len(fields["change"]) != 8:
            raise NeedsUserError(
                f"a saved offset with the fields {sorted(fields)} is not of a SQLite source",
                code="RPL-3501",
                hint="use another pipeline name, or the source the offset was saved for",
            )
        return cls(int.from_bytes(fields["change"], "big"))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SqliteOffset) and self.change == other.change

    def __hash__(self) -> int:
        return hash(self.change)

    def __lt__(self, other: Any) -> bool:
        return self.change < other.change if isinstance(other, SqliteOffset) else NotImplemented

    def __str__(self) -> str:
        return str(self.change)
