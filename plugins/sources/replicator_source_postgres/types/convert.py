"""Converts a column's text values to Arrow in bulk; snapshot and log use the same function."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.authoring.out_of_range import OutOfRangePolicy
from replicator_sdk.authoring.refused_values import convert_marked
from replicator_sdk.batch import Refusal
from replicator_sdk.config import OutOfRange
from replicator_sdk.datatype import BINARY, BOOL, DATE, INSTANT, TIME, TIMESTAMP, Array, DataType, Decimal
from replicator_sdk.schema import Column, TableId
from replicator_source_postgres.types import temporal
from replicator_source_postgres.types.array import split_arrays
from replicator_source_postgres.types.bytea import unhex
from replicator_source_postgres.types.out_of_range import column_policy, finite

_UTF8_HINT = (
    "the database's encoding does not say which (SQL_ASCII?); convert the data, or exclude the column from the pipeline"
)


@dataclass(frozen=True, slots=True)
class Converter:
    """Converts the text of one column to Arrow; immutable except for its counter, picklable.

    Attributes:
        table: Named in errors.
        column: Named in errors; its type decides the result.
        out_of_range: What happens to values the type cannot hold.
        replaced: How many values were replaced under that policy, by kind of value; added to by every call.
        marks: Whether `convert_marked` marks values instead of raising; False for a key's column.
    """

    table: TableId
    column: Column
    out_of_range: OutOfRange = OutOfRange.FAIL
    replaced: Counter[str] = field(default_factory=Counter)
    marks: bool = False

    def convert_marked(self, raw: pa.BinaryArray) -> tuple[pa.Array, Refusal | None]:
        """As `convert`; where `marks`, values for which it raises are NULL instead, and the second part says which.

        Raises:
            DataError: As `convert`, unless `marks`.
        """
        if not self.marks:
            return self.convert(raw), None
        nulls = replace(self, out_of_range=OutOfRange.NULL, replaced=Counter())
        nested = isinstance(self.column.type, Array)  # whose NULLs are inside
        return convert_marked(self.convert, raw, self.column.type.arrow, None if nested else nulls.convert)

    def convert(self, raw: pa.BinaryArray) -> pa.Array:
        """The values of `raw` (text as the server wrote it, with NULL) in the column's Arrow type.

        Raises:
            DataError: When a value is outside the type's range and the policy is to fail, or not a value of the type.
        """
        policy = column_policy(self.out_of_range, str(self.table), self.column.name, self.replaced)
        try:
            text = raw.cast(pa.string())
        except pa.ArrowInvalid:
            # Arrow's message quotes bytes of the value.
            raise policy.error("bytes that are no UTF-8 text", code="RPL-3011", hint=_UTF8_HINT) from None
        try:
            return to_arrow(text, self.column.type, policy)
        except pa.ArrowInvalid:
            # Arrow's message quotes the value, which may be secret.
            raise policy.error(
                f"a value that cannot be read as {self.column.type}",
                code="RPL-3012",
                hint="report it with the column's type; until it is fixed, exclude the column from the pipeline",
            ) from None


def to_arrow(text: pa.StringArray, kind: DataType, policy: OutOfRangePolicy) -> pa.Array:
    """`text` as values of the standard type `kind`."""
    if isinstance(kind, Array):
        offsets, is_null, elements = split_arrays(text, policy)
        values = to_arrow(elements, kind.element, policy)
        return pa.ListArray.from_arrays(offsets, values, type=kind.arrow, mask=is_null)
    if isinstance(kind, Decimal):
        return finite(text, policy).cast(kind.arrow)
    if kind in _BULK:
        return _BULK[kind](text, policy)
    return text if kind.arrow == pa.string() else text.cast(kind.arrow)


def _bool(text: pa.StringArray, _: OutOfRangePolicy) -> pa.Array:
    is_true = pc.equal(text, "t")
    if pc.all(pc.or_(is_true, pc.equal(text, "f"))).as_py() is False:
        raise pa.ArrowInvalid("not a boolean")
    return is_true


_BULK = {
    BOOL: _bool,
    BINARY: lambda text, _: unhex(text),
    DATE: temporal.dates,
    TIME: temporal.times,
    TIMESTAMP: temporal.timestamps,
    INSTANT: temporal.instants,
}
