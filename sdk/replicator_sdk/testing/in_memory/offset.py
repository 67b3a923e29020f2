"""The kit's own offset: a number of transactions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from replicator_sdk.offset import Offset


@dataclass(frozen=True, slots=True)
class MemoryOffset(Offset):
    """After the first `transaction` transactions of a log."""

    transaction: int

    def fields(self) -> Mapping[str, bytes]:
        """One field, eight bytes."""
        return {"transaction": self.transaction.to_bytes(8, "big")}

    @classmethod
    def from_fields(cls, fields: Mapping[str, bytes]) -> Self:
        """The inverse of `fields`."""
        return cls(int.from_bytes(fields["transaction"], "big"))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemoryOffset) and self.transaction == other.transaction

    def __hash__(self) -> int:
        return hash(self.transaction)

    def __lt__(self, other: Any) -> bool:
        return self.transaction < other.transaction if isinstance(other, MemoryOffset) else NotImplemented

    def __str__(self) -> str:
        return f"transaction {self.transaction}"
