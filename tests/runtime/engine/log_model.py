"""A log in memory for engine tests: transactions of row events on tables, with an offset that is a plain number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from replicator_sdk import ChangeBatch, Column, Commits, Offset, TableId, TableSchema
from replicator_sdk.datatype import INT64

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Place(Offset):
    """An offset that counts transactions."""

    number: int

    def fields(self) -> Mapping[str, bytes]:
        return {"number": self.number.to_bytes(8, "big")}

    @classmethod
    def from_fields(cls, fields: Mapping[str, bytes]) -> Self:
        return cls(int.from_bytes(fields["number"], "big"))

    def __lt__(self, other: Any) -> bool:
        return bool(self.number < other.number)

    def __str__(self) -> str:
        return str(self.number)


def table(name: str) -> TableSchema:
    """A table with one column, whose values are the events' own identities."""
    return TableSchema(TableId("db", name), (Column("id", INT64, nullable=False),), ("id",))


def batch(schema: TableSchema, ordinals: list[int], values: list[int], base: int = 0) -> ChangeBatch:
    """INSERTs of `values` at `ordinals`, numbered from `base`."""
    where = np.array(ordinals, np.int64)
    row = pa.array([{"id": v} for v in values], schema.struct)
    return ChangeBatch(
        schema, pa.array([1] * len(values), pa.int8()), row, None, where, sequence_numbers=base + 1 + where
    )


def commits(ends: list[int], first: int) -> Commits:
    """Commits with these exclusive end ordinals, the first at place `first`."""
    return Commits(np.array(ends, np.int64), np.arange(len(ends), dtype=np.int64) + 1000, lambda i: Place(first + i))


def values(changes: Any) -> list[int]:
    """The identities in a `TableChanges`."""
    return [v["id"] for part in changes.batches() for v in part.row.to_pylist()]
