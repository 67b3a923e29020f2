"""A row that was put aside: what is known of it, and how its key is written."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Key = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Letter:
    """The last change of a row that was put aside. As long as it exists, the target has no row of that key.

    Attributes:
        key: The row's key as text, in the order of the primary key.
        operation: INSERT or UPDATE, or COPY for a row of a first copy.
        columns: Whose values are refused; of an update that was put aside since it does not carry all columns, those missing.
        code: The code of the error that would have stopped the table.
        reason: That error's message; never a value.
        position: The table's position once the change is applied.
        sequence: The change's sequence number; 0 for a row of a copy.
        timestamp: When it was committed at the source, microseconds since 1970 UTC; -1 unknown.
        changes: How many changes of the row were put aside since it was last whole at the target.
        row: The row as JSON, with refused values NULL; values as in the source.
    """

    key: Key
    operation: str
    columns: tuple[str, ...]
    code: str
    reason: str
    position: str
    sequence: int
    timestamp: int
    changes: int
    row: str

    def to_json(self) -> dict[str, Any]:
        """What may be shown of it to anyone: neither its key nor a value."""
        return {
            "operation": self.operation,
            "columns": list(self.columns),
            "code": self.code,
            "reason": self.reason,
            "position": self.position,
            "sequence": self.sequence,
            "changes": self.changes,
        }

    @property
    def nbytes(self) -> int:
        """About how much it takes."""
        return len(self.row) + len(self.reason) + sum(len(part or "") for part in self.key) + 200


Letters = dict[Key, Letter]


def key_texts(columns: Sequence[pa.Array]) -> list[pa.Array]:
    """The columns of keys as text: equal values have equal texts, also of types that hold the same values."""
    return [_texts(column) for column in columns]


def _texts(column: pa.Array) -> pa.Array:
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        return pa.array([None if value is None else value.hex() for value in column.to_pylist()], pa.string())
    return pc.cast(column, pa.string())


def row_text(row: Mapping[str, Any]) -> str:
    """A row as JSON; types that JSON has not are text, bytes in hexadecimal."""
    return json.dumps(row, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
