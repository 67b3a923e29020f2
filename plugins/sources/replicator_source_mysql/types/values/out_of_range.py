"""What happens to values that the standard types cannot hold, and the errors about values, which never contain one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from replicator_sdk.authoring.out_of_range import OutOfRangePolicy
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
        return ColumnPolicy(
            self.out_of_range, self.table, column, "RPL-3736", self.replaced, zero_dates=self.zero_dates
        )


@dataclass(frozen=True, slots=True)
class ColumnPolicy(OutOfRangePolicy):
    """The rules for one column's values, and the errors that name it.

    Attributes:
        zero_dates: As in `Policy`.
    """

    zero_dates: str = field(kw_only=True)

    def note_zero_dates(self, count: int) -> None:
        """Count zero and partial dates about to become NULL.

        Raises:
            DataError: When the rule is to fail.
        """
        if self.zero_dates == "fail":
            raise self.error(
                ZERO_DATE,
                code="RPL-3735",
                hint='fix the rows at the source, or set "zeroDates" to "null" or "text"',
            )
        self.replaced[ZERO_DATE] += count

    @property
    def nulls(self) -> ColumnPolicy | None:
        """The rules that make each refused value NULL, counting for themselves; None where a rule makes some NULL anyway, since
        these are not to be taken for refused ones.
        """
        if self.rule is not OutOfRange.FAIL or self.zero_dates != "fail":
            return None
        return replace(self, rule=OutOfRange.NULL, zero_dates="null", replaced=Counter())

    def unreadable(self, kind: str) -> DataError:
        """The error for bytes that are no value of the column's type."""
        return self.error(
            f"a value that cannot be read as {kind}",
            code="RPL-3734",
            hint="report it with the column's type and the server's version; leave the column out to go on meanwhile",
        )
