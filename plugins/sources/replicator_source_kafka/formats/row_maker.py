"""Converts structs as they were read into rows of standard types, column by column."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.authoring.out_of_range import OutOfRangePolicy
from replicator_sdk.config import OutOfRange
from replicator_sdk.schema import TableSchema
from replicator_source_kafka.formats.unavailable import UnavailableValues
from replicator_source_kafka.types.column_codec import Codec

_OUT_OF_RANGE = "RPL-3905"


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one table.

    Attributes:
        row: Struct of the table's columns.
        unchanged: Column → true where the record did not contain the value.
        bad: Row → the column whose value is not of its type; such a row must not be used.
    """

    row: pa.StructArray
    unchanged: dict[str, pa.BooleanArray] = field(default_factory=dict)
    bad: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RowMaker:
    """Creates rows of one table.

    Attributes:
        schema: The table.
        codecs: The codec of each column, by name.
        unavailable: Finds the placeholder of values that were not sent.
        rule: The policy for values that their types cannot hold.
    """

    schema: TableSchema
    codecs: Mapping[str, Codec]
    unavailable: UnavailableValues
    rule: OutOfRange

    def make(self, read: pa.StructArray, position: Callable[[int], str]) -> Rows:
        """Rows from structs; columns that `read` lacks are NULL, and a null struct becomes a row of NULLs."""
        children = dict(zip(read.type.names, read.flatten() if read.null_count else _fields(read), strict=True))
        rows = Rows(pa.nulls(0))
        columns = [self._column(name, children.get(name), len(read), rows, position) for name in self.schema.names]
        if not columns:
            raise ValueError(f"{self.schema.table} has no columns")
        row = pa.StructArray.from_arrays(columns, fields=list(self.schema.arrow))
        return Rows(row, rows.unchanged, rows.bad)

    def _column(
        self, name: str, values: pa.Array | None, count: int, rows: Rows, position: Callable[[int], str]
    ) -> pa.Array:
        codec = self.codecs[name]
        if values is None:
            return pa.nulls(count, codec.kind.arrow)
        hit = self.unavailable.mask(values)
        if hit is not None:
            rows.unchanged[name] = hit
            values = pc.if_else(hit, pa.scalar(None, values.type), values)
        limits = OutOfRangePolicy(self.rule, str(self.schema.table), name, _OUT_OF_RANGE, locate=position)
        return _convert(codec, values, limits, 0, name, rows.bad)


def _fields(read: pa.StructArray) -> Sequence[pa.Array]:
    return [read.field(i) for i in range(read.type.num_fields)]


def _convert(
    codec: Codec, values: pa.Array, limits: OutOfRangePolicy, start: int, name: str, bad: dict[int, str]
) -> pa.Array:
    """The converted column. If the conversion fails, the invalid values are found by halving, and become NULL."""
    try:
        return codec.convert(values, limits.from_index(start) if start else limits)
    except ValueError:  # pyarrow's errors about values are ValueErrors
        if len(values) == 1:
            bad[start] = name
            return pa.nulls(1, codec.kind.arrow)
    middle = len(values) // 2
    halves = (values[:middle], start), (values[middle:], start + middle)
    return pa.concat_arrays([_convert(codec, half, limits, at, name, bad) for half, at in halves])


def indexes(mask: pa.BooleanArray | np.ndarray) -> np.ndarray:
    """The indexes where the mask is true."""
    plain = mask if isinstance(mask, np.ndarray) else mask.fill_null(False).to_numpy(zero_copy_only=False)
    return np.flatnonzero(plain)
