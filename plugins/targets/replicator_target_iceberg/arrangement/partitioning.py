"""A table's partition specification: which partition each row is in, and in which partitions a key may be."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.batch import combined
from replicator_sdk.net_change import encode_rows as code_rows
from replicator_target_iceberg.arrangement.transforms import Transform
from replicator_target_iceberg.schema.types import field_id

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition, by one specification. Immutable.

    Attributes:
        spec: The specification's number.
        values: Of each of its fields, as Iceberg's JSON form has them; none where nothing is partitioned.
    """

    spec: int = 0
    values: tuple[Any, ...] = ()


WHOLE_TABLE: Final = Partition()


@dataclass(frozen=True, slots=True)
class PartitionField:
    """One field of a specification. Immutable.

    Attributes:
        number: Its identity.
        name: Its name.
        source: The identity of the column that it is computed of.
        transform: As Iceberg writes it.
    """

    number: int
    name: str
    source: int
    transform: str


@dataclass(frozen=True, slots=True)
class Partitioning:
    """A specification. Immutable and picklable.

    Attributes:
        number: By which files refer to it.
        fields: In order; none where the table is not partitioned.
    """

    number: int = 0
    fields: tuple[PartitionField, ...] = ()

    @classmethod
    def of(cls, spec: dict[str, Any]) -> Partitioning:
        """The specification in Iceberg's JSON form."""
        fields = (PartitionField(f["field-id"], f["name"], f["source-id"], f["transform"]) for f in spec["fields"])
        return cls(spec["spec-id"], tuple(fields))

    @property
    def sources(self) -> frozenset[int]:
        """The identities of the columns that the partitions follow from."""
        return frozenset(f.source for f in self.fields if f.transform != "void")

    def unwritable(self, columns: Iterable[dict[str, Any]]) -> str:
        """The first field that rows cannot be partitioned by here, as text; empty when they can.

        Args:
            columns: The table's, in Iceberg's JSON form.
        """
        kinds = {column["id"]: column["type"] for column in columns}
        for field in self.fields:
            transform = Transform.parse(field.transform)
            if transform is None or (transform.name != "void" and not transform.takes(kinds.get(field.source))):
                return f"{field.transform} of {field.name!r}"
        return ""

    def split(self, rows: pa.Table) -> Iterator[tuple[Partition, pa.Table]]:
        """The rows by partition, in their order; each part is a copy where there are several."""
        if not self.fields:
            yield Partition(self.number), rows
            return
        columns = {field_id(column): place for place, column in enumerate(rows.schema)}
        values = [self._values(field, rows, columns) for field in self.fields]
        codes, count = code_rows(values)
        if count == 1:
            yield self._partition(values, 0), rows
            return
        order = np.argsort(codes, kind="stable")
        ends = np.searchsorted(codes[order], np.arange(count + 1))
        for start, end in itertools.pairwise(ends):
            yield self._partition(values, int(order[start])), rows.take(pa.array(order[start:end]))

    def _values(self, field: PartitionField, rows: pa.Table, columns: dict[int | None, int]) -> pa.Array:
        transform = Transform.parse(field.transform)
        assert transform is not None, "looked at before anything is written"
        if transform.name == "void":
            return pa.nulls(rows.num_rows, pa.int32())
        return transform.apply(combined(rows.column(columns[field.source])))

    def _partition(self, values: list[pa.Array], row: int) -> Partition:
        return Partition(self.number, tuple(_json(column[row].as_py()) for column in values))

    def that_may_hold(self, keys: pa.Table, partitions: Sequence[Partition]) -> Bools:
        """For each partition of this specification whether one of the keys may be in it: by the fields that follow from a column of the key."""
        kept = np.ones(len(partitions), np.bool_)
        columns = {field_id(column): place for place, column in enumerate(keys.schema)}
        for place, field in enumerate(self.fields):
            transform = Transform.parse(field.transform)
            if transform is None or transform.name == "void" or field.source not in columns:
                continue
            sought = transform.apply(combined(keys.column(columns[field.source])))
            try:
                there = pa.array([found.values[place] for found in partitions]).cast(sought.type)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                continue  # the column had another type then
            kept &= pc.is_in(there, value_set=sought.unique()).to_numpy(zero_copy_only=False)
        return kept


def _json(value: Any) -> Any:
    """A value as Iceberg's JSON form has it."""
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds")
    if isinstance(value, date):
        return value.isoformat()
    return format(value, "f") if isinstance(value, Decimal) else value
