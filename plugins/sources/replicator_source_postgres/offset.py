"""Where the log stands: the end of the last whole transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from replicator_sdk.errors import HistoryLostError
from replicator_sdk.offset import Offset


@dataclass(frozen=True, slots=True, eq=False)
class PostgresOffset(Offset):
    """A log sequence number between two transactions.

    Attributes:
        lsn: The end of the last whole transaction's commit record (or of log that holds no transaction's end). A
            transaction is before it exactly when its own end is not greater.
    """

    lsn: int

    def fields(self) -> Mapping[str, bytes]:
        """`lsn` as eight bytes, big-endian."""
        return {"lsn": self.lsn.to_bytes(8, "big")}

    @classmethod
    def from_fields(cls, fields: Mapping[str, bytes]) -> Self:
        """The inverse of `fields`.

        Raises:
            HistoryLostError: When the fields are another source's.
        """
        if set(fields) != {"lsn"} or len(fields["lsn"]) != 8:
            raise HistoryLostError(
                f"the saved offset has the fields {sorted(fields)}, which are not those of a Postgres source",
                code="RPL-3201",
                hint="give this pipeline a name of its own, or go back to the source its state was made with",
            )
        return cls(int.from_bytes(fields["lsn"], "big"))

    @classmethod
    def parse(cls, text: str) -> Self:
        """The offset written `0/16B3748`."""
        high, _, low = text.partition("/")
        return cls((int(high, 16) << 32) | int(low, 16))

    def __lt__(self, other: Any) -> bool:
        return self.lsn < other.lsn if isinstance(other, PostgresOffset) else NotImplemented

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PostgresOffset) and self.lsn == other.lsn

    def __hash__(self) -> int:
        return hash(self.lsn)

    def __str__(self) -> str:
        return lsn_text(self.lsn)


def lsn_text(lsn: int) -> str:
    """A log position as Postgres writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"
