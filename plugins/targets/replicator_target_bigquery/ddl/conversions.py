"""Values of altered columns as SQL expressions, and which types BigQuery widens by itself."""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final

from replicator_target_bigquery.schema.fields import Field
from replicator_target_bigquery.sql.text import name, text

# What ALTER COLUMN … SET DATA TYPE does, and without losing anything.
_WIDER: Final = {
    "INT64": frozenset({"NUMERIC", "BIGNUMERIC"}),
    "NUMERIC": frozenset({"NUMERIC", "BIGNUMERIC"}),
    "BIGNUMERIC": frozenset({"BIGNUMERIC"}),
}
_INT64_DIGITS: Final = 19


def literal(column: Field, value: Any) -> str | None:
    """A default of the source's as a value of the column; None for one of a nested type."""
    if column.type == "JSON" and isinstance(value, str):
        return f"PARSE_JSON({text(value)}, wide_number_mode => 'round')"
    if isinstance(value, bytes):
        return f"FROM_HEX('{value.hex()}')"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str | int | float | Decimal | datetime | date | time):
        return f"CAST({text(str(value))} AS {column.sql})"
    return None


def converted(old: Field, new: Field) -> str:
    """The values of a column as those of another type."""
    value = name(old.name)
    if new.type == "JSON":
        return f"IF({value} IS NULL, NULL, TO_JSON({value}))"
    if old.type == "JSON":
        value = f"IF({value} IS NULL, NULL, TO_JSON_STRING({value}))"
        return value if new.type == "STRING" else f"CAST({value} AS {new.sql})"
    return f"CAST({value} AS {new.sql})"


def widens(old: Field, new: Field) -> bool:
    """Whether BigQuery changes the type in place and every value stays."""
    if old.mode == "REPEATED" or new.type not in _WIDER.get(old.type, ()):
        return False
    if new.precision is None:
        return True
    if old.type == "INT64":
        return new.precision - (new.scale or 0) >= _INT64_DIGITS
    if old.precision is None:
        return False
    scale, before = new.scale or 0, old.scale or 0
    return scale >= before and new.precision - scale >= old.precision - before
