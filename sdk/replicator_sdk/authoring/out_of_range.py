"""Applies the `outOfRange` setting to the values of a column: fail, replace by NULL, or replace by the nearest value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.config import OutOfRange
from replicator_sdk.errors import DataError

_HINT = (
    "fix the rows at the source, or set `outOfRange` in the properties of the target, or of the source, which takes"
    ' precedence, to "null" or "clamp"'
)


@dataclass(frozen=True, slots=True)
class OutOfRangePolicy:
    """The rule for one column's values.

    No error contains a value. Picklable when `locate` is; used by one thread, since it adds to `replaced`.

    Attributes:
        rule: What happens to a value that the standard type cannot hold.
        table: The table's name, for errors.
        column: The column's name, for errors.
        code: The plugin's code for the error under the rule FAIL.
        replaced: How many values were replaced, by kind of value; shared with the caller, which reports it as a metric.
        locate: Returns the position in the log of the value at an index, for errors; None where it is unknown.
    """

    rule: OutOfRange
    table: str
    column: str
    code: str
    replaced: Counter[str] = field(default_factory=Counter)
    locate: Callable[[int], str] | None = None

    def from_index(self, start: int) -> Self:
        """Returns the rule for the values from index `start` on, whose indexes then begin at 0."""
        locate = self.locate
        return self if locate is None else replace(self, locate=lambda index: locate(start + index))

    def note(self, what: str, count: int, first: int | None = None) -> OutOfRange:
        """Counts `count` values that are about to be replaced; returns the rule, which is NULL or CLAMP.

        Args:
            what: The kind of value, for the error and the count; never a value.
            count: How many.
            first: The index of the first of them, where it is known.

        Raises:
            DataError: When the rule is FAIL.
        """
        if self.rule is OutOfRange.FAIL:
            position = None if first is None or self.locate is None else self.locate(first)
            raise self.error(what, code=self.code, hint=_HINT, position=position)
        self.replaced[what] += count
        return self.rule

    def note_where(self, mask: pa.BooleanArray, what: str) -> int:
        """Counts the values under `mask` (NULL counts as false), which are about to be replaced; returns how many.

        Raises:
            DataError: When there is one and the rule is FAIL.
        """
        count = int(pc.sum(mask).as_py() or 0)
        if count:
            first = None
            if self.rule is OutOfRange.FAIL and self.locate is not None:
                first = int(np.flatnonzero(mask.fill_null(False).to_numpy(zero_copy_only=False))[0])
            self.note(what, count, first)
        return count

    def replace_where(self, values: pa.Array, mask: pa.BooleanArray, what: str, nearest: object | None) -> pa.Array:
        """Returns `values` with those under `mask` replaced by `nearest` or NULL.

        Args:
            values: The column, in any type that can hold its values, for example text.
            mask: Which values the standard type cannot hold; NULL counts as false.
            what: As in `note`.
            nearest: The nearest value the standard type holds, in the type of `values`; None when no value is nearest.

        Raises:
            DataError: When there is such a value and the rule is FAIL.
        """
        if not self.note_where(mask, what):
            return values
        replacement = nearest if self.rule is OutOfRange.CLAMP else None
        return pc.if_else(pc.fill_null(mask, False), pa.scalar(replacement, values.type), values)

    def keep_clamped(self, values: pa.Array, mask: pa.BooleanArray, what: str) -> pa.Array:
        """Returns `values`, which are clamped already, with those under `mask` as they are or NULL.

        Raises:
            DataError: When there is such a value and the rule is FAIL.
        """
        if not self.note_where(mask, what) or self.rule is OutOfRange.CLAMP:
            return values
        return pc.if_else(mask.fill_null(False), pa.scalar(None, values.type), values)

    def limit(self, values: pa.Array, lowest: int, highest: int, what: str) -> pa.Array:
        """Returns integers with those below `lowest` or above `highest` replaced by that limit or NULL.

        Raises:
            DataError: When there is such a value and the rule is FAIL.
        """
        extremes = pc.min_max(values)
        if not extremes["min"].is_valid or (extremes["min"].as_py() >= lowest and extremes["max"].as_py() <= highest):
            return values
        low, high = pa.scalar(lowest, values.type), pa.scalar(highest, values.type)
        outside = pc.or_(pc.less(values, low), pc.greater(values, high))
        self.note_where(outside, what)
        if self.rule is OutOfRange.CLAMP:
            return pc.min_element_wise(pc.max_element_wise(values, low, skip_nulls=False), high, skip_nulls=False)
        return pc.if_else(outside, pa.scalar(None, values.type), values)

    def error(self, what: str, *, code: str, hint: str, position: str | None = None) -> DataError:
        """Returns the error that names the column and the kind of value."""
        return DataError(
            f"column {self.column!r} holds {what}", code=code, table=self.table, position=position, hint=hint
        )
