"""Comparing rows in SQL the way `replicator_sdk.net_change` does: NULL equals NULL, NaN equals NaN, both zeros are one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from replicator_target_bigquery.schema.fields import Field
from replicator_target_bigquery.sql.text import name

# BigQuery cannot group by these or compare them.
_AS_TEXT: Final = frozenset({"FLOAT64", "STRUCT", "JSON", "GEOGRAPHY"})


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """One column of a key.

    Attributes:
        field: The column at the target.
        nullable: Whether keys may hold NULL in it.
    """

    field: Field
    nullable: bool

    @property
    def name(self) -> str:
        """Its name at the target."""
        return self.field.name


def comparable(column: str, kind: Field) -> str:
    """An expression that is equal for equal values and that BigQuery can group by.

    Args:
        column: The column in a statement, quoted and qualified.
        kind: Its type.
    """
    if kind.type == "FLOAT64" and kind.mode != "REPEATED":
        return f"TO_JSON_STRING({column} + 0.0)"
    if kind.type in _AS_TEXT or kind.mode == "REPEATED":
        return f"TO_JSON_STRING({column})"
    return column


def same_key(keys: tuple[KeyColumn, ...], left: str, right: str, right_prefix: str = "") -> str:
    """Whether two rows have the same key, as a condition on equal values, which BigQuery's outer joins require.

    Args:
        keys: The key.
        left: Alias of one row, with the key's names.
        right: Alias of the other.
        right_prefix: The prefix of the key's names there.
    """
    return " AND ".join(
        same_value(
            key.field, f"{left}.{name(key.name)}", f"{right}.{name(right_prefix + key.name)}", nullable=key.nullable
        )
        for key in keys
    )


def same_value(kind: Field, left: str, right: str, *, nullable: bool) -> str:
    """Whether two columns of one type hold the same value, NULL or NaN included."""
    if not nullable and comparable("", kind) == "":
        return f"{left} = {right}"
    # IS NOT DISTINCT FROM alone would do, but no outer join works without an equality. TO_JSON_STRING is one-to-one.
    return " = ".join(
        f"IFNULL(TO_JSON_STRING({side}{' + 0.0' if kind.type == 'FLOAT64' and kind.mode != 'REPEATED' else ''}), 'null')"
        for side in (left, right)
    )


def row_text(alias: str, columns: tuple[Field, ...]) -> str:
    """The whole row as text, equal for equal rows; for tables without a key. It names the columns, in their order."""
    values = (
        f"{alias}.{name(c.name)}{' + 0.0' if c.type == 'FLOAT64' and c.mode != 'REPEATED' else ''} AS {name(c.name)}"
        for c in columns
    )
    return f"TO_JSON_STRING(STRUCT({', '.join(values)}))"
