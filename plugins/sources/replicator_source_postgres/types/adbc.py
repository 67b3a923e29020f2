"""Converts columns that ADBC has read into Arrow to exactly the values that their text gives.

Only types whose binary form is as exact as their text are read this way; every other column is read as the text that its
output function writes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.authoring.arrow_buffers import joined_bytes, validity
from replicator_sdk.authoring.characters import uuid_text
from replicator_sdk.config import OutOfRange
from replicator_sdk.datatype import DATE, INSTANT, TIME, TIMESTAMP, UUID
from replicator_sdk.schema import Column, TableId
from replicator_source_postgres.types import temporal
from replicator_source_postgres.types.convert import Converter
from replicator_source_postgres.types.mapping import PgType
from replicator_source_postgres.types.out_of_range import column_policy

_OID = 26
_DIRECT = frozenset({16, 17, 20, 21, 23, 25, 114, 700, 701, 1042, 1043, 1082, 1083, 1114, 1184, 2950, 3802})
"""Built-in types that the driver reads exactly; bounded numeric is another one."""
_NUMERIC = 1700
_EPOCH_DAYS, _EPOCH_MICROSECONDS = 10_957, 946_684_800_000_000


def adbc_expression(
    column: str, oid: int, typmod: int, lookup: Callable[[int], PgType], casts: frozenset[int]
) -> str | None:
    """The expression that reads a column for ADBC.

    Args:
        column: Its quoted name.
        oid: Its type.
        typmod: Its type modifier.
        lookup: Types by identifier.
        casts: Types with a cast to text of their own, which writes other text than their output function.

    Returns:
        None when the column must be read by COPY in text format.
    """
    if oid == _OID:
        return f"{column}::int8"
    if oid in _DIRECT or (oid == _NUMERIC and typmod >= 4):
        return column
    kind = lookup(oid)
    # A domain uses the casts of its base type; COPY is right for it, and domains are rare.
    return None if kind.base or oid in casts else f"{column}::text"


@dataclass(frozen=True, slots=True)
class AdbcConverter:
    """Converts one column of the driver's to its standard type; the counterpart of `Converter`.

    Attributes:
        table: Named in errors.
        column: Named in errors; its type decides the result.
        is_text: Whether the column was read as text.
        out_of_range: What happens to values the type cannot hold.
        replaced: How many values were replaced under that policy.
    """

    table: TableId
    column: Column
    is_text: bool
    out_of_range: OutOfRange = OutOfRange.FAIL
    replaced: Counter[str] = field(default_factory=Counter)

    def convert(self, values: pa.Array) -> pa.Array:
        """The values in the column's Arrow type.

        Raises:
            DataError: When a value is outside the type's range and the policy is to fail.
        """
        kind = self.column.type
        if isinstance(values, pa.ExtensionArray):
            values = values.storage
        if self.is_text or pa.types.is_decimal(kind.arrow):
            return Converter(self.table, self.column, self.out_of_range, self.replaced).convert(
                values.cast(pa.binary())
            )
        policy = column_policy(self.out_of_range, str(self.table), self.column.name, self.replaced)
        if kind == DATE:
            return temporal.from_binary_dates(_moved(values, pa.int32(), _EPOCH_DAYS), policy)
        if kind in {TIMESTAMP, INSTANT}:
            moments = _moved(values, pa.int64(), _EPOCH_MICROSECONDS)
            return temporal.from_binary_timestamps(moments, kind.arrow, policy)
        if kind == TIME:
            return temporal.from_binary_times(values, policy)
        return _uuids(values) if kind == UUID else values.cast(kind.arrow)


def _moved(values: pa.Array, number: pa.DataType, epoch: int) -> pa.Array:
    """The server's own number: subtracts the distance of the epochs that the driver added, with wrap-around at the extremes."""
    return pc.subtract(values.cast(number), pa.scalar(epoch, number))


def _uuids(values: pa.FixedSizeBinaryArray) -> pa.StringArray:
    """The 36-character form of 16-byte values, with NULL."""
    octets, _ = joined_bytes(values.fill_null(bytes(16)).cast(pa.binary()))
    return uuid_text(octets.reshape(-1, 16), validity(values))
