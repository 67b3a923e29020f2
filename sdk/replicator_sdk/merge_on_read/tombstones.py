"""Which rows of a merge-on-read table say that their key is deleted, and how rows come to say so."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.batch import combined

Bools = npt.NDArray[np.bool_]
_ANY_TEXT: Final = "deleted"


class Tombstones:
    """The tombstone key of one table; picklable.

    Args:
        field: Its column, as the table's files have it.
        text: The definition's `tombstone_string_key_value`.
    """

    def __init__(self, field: pa.Field, text: str | None) -> None:
        self.field, self._text = field, text

    def mark(self, rows: pa.Table, deleted: Bools) -> pa.Table:
        """`rows` as the table's files have them, those that are `deleted` as tombstones."""
        if not deleted.any():
            return rows
        place = rows.schema.get_field_index(self.field.name)
        values = pc.if_else(pa.array(deleted), self._value(), combined(rows.column(place)))
        return rows.set_column(place, self.field, values)

    def are(self, rows: pa.Table) -> Bools:
        """Which of `rows`, a table with the tombstone key's column, are tombstones."""
        values = combined(rows.column(self.field.name))
        if pa.types.is_boolean(values.type):
            found = pc.fill_null(values, False)
        elif self._text is not None:
            found = pc.fill_null(pc.equal(values, self._text), False)
        else:
            found = pc.is_valid(values)
        are: Bools = found.to_numpy(zero_copy_only=False)
        return are

    def _value(self) -> pa.Scalar:
        """What a deleted row has: true, the text that says so, or any value of the type."""
        kind, value = self.field.type, 0
        given: Any = value
        if pa.types.is_boolean(kind):
            given = True
        elif pa.types.is_string(kind):
            given = _ANY_TEXT if self._text is None else self._text
        elif pa.types.is_binary(kind):
            given = _ANY_TEXT.encode()
        elif pa.types.is_decimal(kind):
            given = Decimal(value)
        return pa.scalar(given, kind)
