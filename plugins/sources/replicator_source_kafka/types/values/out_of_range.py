"""The policy for values that the standard types cannot hold. Errors about values never contain a value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.config import OutOfRange
from replicator_sdk.errors import DataError


@dataclass(frozen=True, slots=True)
class Limits:
    """The policy for one column's values, and the errors that name the column.

    Attributes:
        rule: The policy.
        table: The table's name, for errors.
        column: The column's name, for errors.
        replaced: The number of replaced values, by kind of value; this class adds to it.
        position: Returns the position of the record of the value at an index, for errors.
    """

    rule: OutOfRange
    table: str
    column: str
    replaced: Counter[str] = field(default_factory=Counter)
    position: Callable[[int], str] | None = None

    def from_index(self, start: int) -> Limits:
        """The same policy for the part of a column that begins at index `start`."""
        position = self.position
        later = None if position is None else lambda i: position(start + i)
        return Limits(self.rule, self.table, self.column, self.replaced, later)

    def within(self, values: pa.Array, lowest: int, highest: int, what: str) -> pa.Array:
        """`values` (integers), with those outside the limits replaced by NULL or by the limit.

        Raises:
            DataError: When a value is outside and the policy is to fail.
        """
        low, high = pa.scalar(lowest, values.type), pa.scalar(highest, values.type)
        extremes = pc.min_max(values)
        if not extremes["min"].is_valid or (extremes["min"].as_py() >= lowest and extremes["max"].as_py() <= highest):
            return values
        self.note(pc.or_(pc.less(values, low), pc.greater(values, high)), what)
        if self.rule is OutOfRange.CLAMP:
            return pc.min_element_wise(pc.max_element_wise(values, low, skip_nulls=False), high, skip_nulls=False)
        kept = pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high))
        return pc.if_else(kept, values, pa.scalar(None, values.type))

    def without(self, values: pa.Array, hit: pa.BooleanArray, what: str) -> pa.Array:
        """`values`, which are clamped already, with those at `hit` replaced by NULL unless the policy is to clamp.

        Raises:
            DataError: When `hit` has a value and the policy is to fail.
        """
        self.note(hit, what)
        if self.rule is OutOfRange.CLAMP:
            return values
        return pc.if_else(hit.fill_null(False), pa.scalar(None, values.type), values)

    def note(self, hit: pa.BooleanArray, what: str) -> None:
        """Count the values at `hit`, which will be replaced.

        Raises:
            DataError: When there are any and the policy is to fail.
        """
        count = int(pc.sum(hit).as_py() or 0)
        if count and self.rule is OutOfRange.FAIL:
            first = int(np.flatnonzero(hit.fill_null(False).to_numpy(zero_copy_only=False))[0])
            raise DataError(
                f"column {self.column!r} holds {what}",
                code="RPL-3905",
                table=self.table,
                position=self.position(first) if self.position else None,
                hint='fix the row at the source, or set "outOfRange" to "null" or "clamp"',
            )
        self.replaced[what] += count
