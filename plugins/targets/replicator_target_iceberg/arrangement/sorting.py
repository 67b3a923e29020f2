"""A table's sort order, by which each data file is sorted before it is written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.batch import combined
from replicator_target_iceberg.arrangement.transforms import Transform
from replicator_target_iceberg.schema.types import field_id


@dataclass(frozen=True, slots=True)
class SortField:
    """One part of a sort order. Immutable.

    Attributes:
        source: The identity of the column.
        transform: What of it is compared, as Iceberg writes it.
        is_descending: Whether the largest value is the first.
        nulls_first: Whether rows without a value are the first.
    """

    source: int
    transform: str
    is_descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class Sorting:
    """A sort order. Immutable and picklable.

    Attributes:
        number: By which files refer to it; 0 for none.
        fields: In order.
    """

    number: int = 0
    fields: tuple[SortField, ...] = ()

    @classmethod
    def of(cls, order: dict[str, Any]) -> Sorting:
        """The order in Iceberg's JSON form."""
        fields = (
            SortField(f["source-id"], f["transform"], f["direction"] == "desc", f["null-order"] == "nulls-first")
            for f in order["fields"]
        )
        return cls(order["order-id"], tuple(fields))

    def if_writable(self, columns: Iterable[dict[str, Any]]) -> Sorting:
        """This order, or none where files cannot be sorted by it here: no reader depends on it."""
        kinds = {column["id"]: column["type"] for column in columns}
        transforms = [(Transform.parse(f.transform), kinds.get(f.source)) for f in self.fields]
        is_writable = all(transform is not None and transform.takes(kind) for transform, kind in transforms)
        return self if is_writable else Sorting()

    def sorted(self, rows: pa.Table) -> pa.Table:
        """The rows in this order."""
        if not self.fields or rows.num_rows < 2:
            return rows
        columns = {field_id(column): place for place, column in enumerate(rows.schema)}
        compared: dict[str, pa.Array] = {}
        keys: list[tuple[str, str]] = []
        for place, field in enumerate(self.fields):
            transform = Transform.parse(field.transform)
            assert transform is not None, "looked at before anything is written"
            values = transform.apply(combined(rows.column(columns[field.source])))
            if values.null_count:  # Arrow has one place of NULL for all keys, and it is the last one here
                compared[f"{place} is NULL"] = pc.is_null(values)
                keys.append((f"{place} is NULL", "descending" if field.nulls_first else "ascending"))
            compared[str(place)] = values
            keys.append((str(place), "descending" if field.is_descending else "ascending"))
        return rows.take(pc.sort_indices(pa.table(compared), sort_keys=keys))
