"""Structs as they were read into rows of standard types, column by column."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.config import OutOfRange
from replicator_sdk.schema import TableSchema
from replicator_source_kafka.formats.unavailable import Unavailable
from replicator_source_kafka.types.column_codec import Codec
from replicator_source_kafka.types.limits import Limits


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one table.

    Attributes:
        row: Struct of the table's columns.
        unchanged: Column → true where the record did not carry the value.
        bad: Row → the column whose value is not of its type; the row is then not to be used.
    """

    row: pa.StructArray
    unchanged: dict[str, pa.BooleanArray] = field(default_factory=dict)
    bad: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RowMaker:
    """Makes rows of one table.

    Attributes:
        schema: The table.
        codecs: How each of its columns travels, by name.
        unavailable: Finds the stand-in for values that were not sent.
        rule: What becomes of values outside their types.
    """

    schema: TableSchema
    codecs: Mapping[str, Codec]
    unavailable: Unavailable
    rule: OutOfRange

    def make(self, read: pa.StructArray, place: Callable[[int], str]) -> Rows:
        """Rows out of structs; columns that `read` lacks are NULL, a null struct makes a row of NULLs."""
        children = dict(zip(read.type.names, read.flatten() if read.null_count else _fields(read), strict=True))
        rows = Rows(pa.nulls(0))
        columns = [self._column(name, children.get(name), len(read), rows, place) for name in self.schema.names]
        if not columns:
            raise ValueError(f"{self.schema.table} has no columns")
        row = pa.StructArray.from_arrays(columns, fields=list(self.schema.arrow))
        return Rows(row, rows.unchanged, rows.bad)

    def _column(
        self, name: str, values: pa.Array | None, count: int, rows: Rows, place: Callable[[int], str]
    ) -> pa.Array:
        codec = self.codecs[name]
        if values is None:
            return pa.nulls(count, codec.kind.arrow)
        hit = self.unavailable.mask(values)
        if hit is not None:
            rows.unchanged[name] = hit
            values = pc.if_else(hit, pa.scalar(None, values.type), values)
        limits = Limits(self.rule, str(self.schema.table), name, place=place)
        return _convert(codec, values, limits, 0, name, rows.bad)


def _fields(read: pa.StructArray) -> Sequence[pa.Array]:
    return [read.field(i) for i in range(read.type.num_fields)]


def _convert(codec: Codec, values: pa.Array, limits: Limits, start: int, name: str, bad: dict[int, str]) -> pa.Array:
    """The column converted; when that fails the values that are to blame are looked for, and are NULL."""
    try:
        return codec.convert(values, limits.behind(start) if start else limits)
    except ValueError:  # pyarrow's errors about values are ValueErrors
        if len(values) == 1:
            bad[start] = name
            return pa.nulls(1, codec.kind.arrow)
    middle = len(values) // 2
    halves = (values[:middle], start), (values[middle:], start + middle)
    return pa.concat_arrays([_convert(codec, half, limits, at, name, bad) for half, at in halves])


def indexes(mask: pa.BooleanArray | np.ndarray) -> np.ndarray:
    """Where it is true."""
    plain = mask if isinstance(mask, np.ndarray) else mask.fill_null(False).to_numpy(zero_copy_only=False)
    return np.flatnonzero(plain)
