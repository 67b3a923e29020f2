"""One column's values in a result set of the text protocol as an Arrow array, equal to what the log's form of them becomes."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from replicator_sdk.batch import Refusal
from replicator_sdk.schema import Column
from replicator_source_mysql.definition import ColumnDefinition
from replicator_source_mysql.types.column_form import FLOATS, INTEGERS, SHARED, TEXT, ColumnForm
from replicator_source_mysql.types.values import charset, decimal, temporal
from replicator_source_mysql.types.values.out_of_range import Policy


class TextColumn:
    """How one column is selected, and how its values become Arrow. Picklable; used by one thread at a time.

    The connection's character set is utf8mb4 and its time zone +00:00.

    Args:
        column: The column.
        target: The column of the result.
        policy: What happens to values out of range.
        marks: Whether `convert_marked` marks values instead of raising; False for a key's column.

    Attributes:
        target: The column of the result.
        expression: The column's place in a SELECT list.

    Raises:
        NeedsUserError: When it is text in a character set that cannot be decoded.
    """

    def __init__(self, column: ColumnDefinition, target: Column, policy: Policy, *, marks: bool = False) -> None:
        self.target = target
        self._marks = marks
        self._form = ColumnForm.of(column, target.type, policy)
        self.expression = _expression(quoted(column.name), self._form)

    def convert(self, raw: pa.BinaryArray) -> pa.Array:
        """The values, NULL kept, in the target's Arrow type.

        Raises:
            DataError: When a value is outside the type's range and the policy is to fail, or is no value of the type.
        """
        return _converted(raw, self._form)

    def convert_marked(self, raw: pa.BinaryArray) -> tuple[pa.Array, Refusal | None]:
        """As `convert`; where the column marks, values for which it raises are NULL instead, and the second part says which.

        Raises:
            DataError: As `convert`, unless the column marks.
        """
        return self._form.convert_marked(_converted, raw) if self._marks else (self.convert(raw), None)


def _converted(raw: pa.BinaryArray, form: ColumnForm) -> pa.Array:
    try:
        return (SHARED.get(form.name) or _READERS[form.name])(raw, form)
    except (ValueError, pa.ArrowInvalid):
        # Their messages may quote the value.
        raise form.policy.unreadable(form.source) from None


def quoted(name: str) -> str:
    """A name as an identifier of SQL."""
    return "`" + name.replace("`", "``") + "`"


def _expression(name: str, form: ColumnForm) -> str:
    if form.name in FLOATS:
        # FLOAT prints six digits, and FLOAT(7,3) or DOUBLE(9,2) print their scale; this prints what reads back the same.
        return f"{name} * 1e0"
    if form.name in TEXT and not charset.is_utf8(form.charset):
        # The server would print `?` for what it has no Unicode for; the log's bytes and these are judged by one decoder.
        return f"CAST({name} AS BINARY)"
    return name


def _string(raw: pa.BinaryArray, _: ColumnForm) -> pa.Array:
    return raw.cast(pa.string())


def _number(raw: pa.BinaryArray, form: ColumnForm) -> pa.Array:
    return raw.cast(pa.string()).cast(form.target.arrow)


def _float(raw: pa.BinaryArray, form: ColumnForm) -> pa.Array:
    return raw.cast(pa.string()).cast(pa.float64()).cast(form.target.arrow, safe=False)


def _decimal(raw: pa.BinaryArray, form: ColumnForm) -> pa.Array:
    return decimal.from_text(raw.cast(pa.string()), form.target.arrow)


def _moment(raw: pa.BinaryArray, form: ColumnForm) -> pa.Array:
    return temporal.moments_from_text(raw, form.target, form.digits, form.policy)


def _year(raw: pa.BinaryArray, form: ColumnForm) -> pa.Array:
    return temporal.years_from_text(raw.cast(pa.string()), form.digits)


_READERS: dict[str, Callable[[pa.BinaryArray, ColumnForm], pa.Array]] = {
    **dict.fromkeys(INTEGERS, _number),
    **dict.fromkeys(FLOATS, _float),
    **dict.fromkeys(("date", "datetime", "timestamp"), _moment),
    **dict.fromkeys(("time", "enum", "set", "json", "uuid", "inet4", "inet6"), _string),
    "decimal": _decimal,
    "year": _year,
}
