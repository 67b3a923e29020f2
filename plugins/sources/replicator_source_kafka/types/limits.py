"""What becomes of values that the standard types cannot hold; errors about values never carry one."""

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
    """The rule for one column's values, and the errors that name it.

    Attributes:
        rule: The policy.
        table: The table's name, for errors.
        column: The column's name, for errors.
        replaced: How many values were replaced, by kind of value; added to.
        place: Says which record the value at an index came from, for errors.
    """

    rule: OutOfRange
    table: str
    column: str
    replaced: Counter[str] = field(default_factory=Counter)
    place: Callable[[int], str] | None = None

    def behind(self, start: int) -> Limits:
        """The same for values cut off at index `start` of a column."""
        place = self.place
        later = None if place is None else lambda i: place(start + i)
        return Limits(self.rule, self.table, self.column, self.replaced, later)

    def within(self, values: pa.Array, lowest: int, highest: int, what: str) -> pa.Array:
        """`values` (integers) with those outside the limits replaced by NULL or by the limit.

        Raises:
            DataError: When there is one and the rule is to fail.
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
        """`values`, which are already the nearest, with those at `hit` replaced by NULL unless the rule is to clamp.

        Raises:
            DataError: When there is one and the rule is to fail.
        """
        self.note(hit, what)
        if self.rule is OutOfRange.CLAMP:
            return values
        return pc.if_else(hit.fill_null(False), pa.scalar(None, values.type), values)

    def note(self, hit: pa.BooleanArray, what: str) -> None:
        """Count the values at `hit`, which are to be replaced.

        Raises:
            DataError: When the rule is to fail.
        """
        count = int(pc.sum(hit).as_py() or 0)
        if count and self.rule is OutOfRange.FAIL:
            first = int(np.flatnonzero(hit.fill_null(False).to_numpy(zero_copy_only=False))[0])
            raise DataError(
                f"column {self.column!r} holds {what}",
                code="RPL-3905",
                table=self.table,
                position=self.place(first) if self.place else None,
                hint='mend the row at the source, or set "outOfRange" to "null" or "clamp"',
            )
        self.replaced[what] += count
