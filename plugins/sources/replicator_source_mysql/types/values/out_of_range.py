"""What happens to values that the standard types cannot hold, and the errors about values, which never contain one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from replicator_sdk.config import OutOfRange
from replicator_sdk.errors import DataError

ZERO_DATE = "a zero or partial date"
"""What such values are called in errors and in the count of replaced values."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules for one table's values. Picklable; a copy counts for itself.

    Attributes:
        zero_dates: What happens to zero and partial dates: `null`, `fail`, or `text` (such columns arrive as strings).
        out_of_range: What happens to other values the standard types cannot hold.
        table: The table's name, for errors.
        replaced: How many values were replaced, by kind of value; added to by every conversion.
    """

    zero_dates: str
    out_of_range: OutOfRange
    table: str
    replaced: Counter[str]

    def of(self, column: str) -> ColumnPolicy:
        """The rules for one of its columns."""
        return ColumnPolicy(self, column)


@dataclass(frozen=True, slots=True)
class ColumnPolicy:
    """The rules for one column's values, and the errors that name it."""

    policy: Policy
    column: str

    def note_zero_dates(self, count: int) -> None:
        """Count zero and partial dates about to become NULL.

        Raises:
            DataError: When the rule is to fail.
        """
        if self.policy.zero_dates == "fail":
            raise self.error(
                ZERO_DATE,
                code="RPL-3735",
                hint='fix the rows at the source, or set "zeroDates" to "null" or "text"',
            )
        self.policy.replaced[ZERO_DATE] += count

    def note_out_of_range(self, what: str, count: int) -> OutOfRange:
        """Count values about to be replaced; returns the rule, which is `null` or `clamp`.

        Raises:
            DataError: When the rule is to fail.
        """
        if self.policy.out_of_range is OutOfRange.FAIL:
            raise self.error(
                what,
                code="RPL-3736",
                hint='fix the rows at the source, or set "outOfRange" to "null" or "clamp"',
            )
        self.policy.replaced[what] += count
        return self.policy.out_of_range

    def error(self, what: str, *, code: str, hint: str) -> DataError:
        """The error that names the column and the kind of value."""
        return DataError(f"column {self.column!r} holds {what}", code=code, table=str(self.policy.table), hint=hint)

    def unreadable(self, kind: str) -> DataError:
        """The error for bytes that are no value of the column's type."""
        return self.error(
            f"a value that cannot be read as {kind}",
            code="RPL-3734",
            hint="report it with the column's type and the server's version; leave the column out to go on meanwhile",
        )
