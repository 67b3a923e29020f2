"""Applies the setting `outOfRange` to values that the standard types cannot hold."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.config import OutOfRange
from replicator_sdk.errors import DataError


@dataclass(frozen=True, slots=True)
class OutOfRangePolicy:
    """The rule for one column, and where replaced values are counted."""

    rule: OutOfRange
    table: str
    column: str
    replaced: Counter[str]

    def apply(self, values: pa.Array, mask: pa.BooleanArray, what: str, nearest: object | None) -> pa.Array:
        """`values` with the rule applied to those under `mask`.

        Args:
            values: The column, as text or as numbers.
            mask: Which values the type cannot hold; NULL counts as false.
            what: The kind of value, for the error and the count; never the value itself.
            nearest: The nearest value the type holds, in the form of `values`; None when no value is nearest.

        Raises:
            DataError: When there is such a value and the rule is to fail.
        """
        count = pc.sum(mask).as_py() or 0
        if not count:
            return values
        self.note(what, count)
        replacement = nearest if self.rule is OutOfRange.CLAMP else None
        return pc.if_else(pc.fill_null(mask, False), pa.scalar(replacement, values.type), values)

    def note(self, what: str, count: int) -> None:
        """Count values about to be replaced.

        Raises:
            DataError: When the rule is to fail.
        """
        if self.rule is OutOfRange.FAIL:
            raise self.error(
                what,
                code="RPL-3010",
                hint='fix the rows at the source, or set "outOfRange" to "null" or "clamp"',
            )
        self.replaced[what] += count

    def finite(self, text: pa.StringArray) -> pa.StringArray:
        """`text` of numbers with the rule applied to NaN and infinities, which have no nearest number."""
        mask = pc.is_in(pc.ascii_lower(text), pa.array(["nan", "infinity", "-infinity"]))
        return self.apply(text, mask, "NaN or an infinity", None)

    def error(self, what: str, *, code: str, hint: str) -> DataError:
        """The error that names the column and the kind of value."""
        return DataError(f"column {self.column!r} holds {what}", code=code, table=self.table, hint=hint)
