"""The latest row of each primary key of a merge-on-read table, without the deleted ones: as a view, as a DataFrame."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from replicator_sdk.merge_on_read.definition import MergeOnReadDefinition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PLAIN = re.compile(r"[A-Za-z0-9_ .:-]*")


def view_sql(
    view: Sequence[str], table: Sequence[str], columns: Mapping[str, str], definition: MergeOnReadDefinition
) -> str:
    """The Spark SQL statement that makes, or replaces, the view that readers of a table use.

    Args:
        view: The parts of the view's name (catalog, schema, name), unquoted.
        table: The parts of the table's name, unquoted; `("parquet", path)` reads files.
        columns: Name of each column → Spark's name of its type, as `dict(dataframe.dtypes)`.
        definition: The keys of the table.

    Raises:
        NeedsUserError: RPL-1901 when a key is no column of the table, or of a type that no key has.
    """
    rank = free_name(columns)
    ranked = ("(SELECT *,", _rank(columns, definition), "AS", _quoted(rank), "FROM", _dotted(table) + ")")
    shown = ("SELECT", ", ".join(map(_quoted, columns)), "FROM", *ranked, "WHERE", _quoted(rank), "= 1 AND NOT")
    return " ".join(("CREATE OR REPLACE VIEW", _dotted(view), "AS", *shown, _deleted(columns, definition)))


def latest_rows(dataframe: DataFrame, definition: MergeOnReadDefinition) -> DataFrame:
    """The rows that the view of `view_sql` has, of any DataFrame: the latest of each primary key, unless deleted.

    Raises:
        NeedsUserError: As `view_sql`.
    """
    from pyspark.sql.functions import expr

    columns = dict(dataframe.dtypes)
    rank = free_name(columns)
    ranked = dataframe.withColumn(rank, expr(_rank(columns, definition)))
    return ranked.where(f"{_quoted(rank)} = 1 AND NOT {_deleted(columns, definition)}").drop(rank)


def _rank(columns: Mapping[str, str], definition: MergeOnReadDefinition) -> str:
    """Number 1 is the latest. Of equal watermarks a deletion is first, then the largest of the other columns.

    The seed leaves equal watermarks open; each reader must see the same row, whatever file it reads first.
    """
    definition.check(columns)
    named = set(definition.columns())
    others = [_comparable(name, kind) for name, kind in columns.items() if name not in named]
    if definition.tombstone_key is not None:
        others = [_deleted(columns, definition), *others, _quoted(definition.tombstone_key)]
    keys = [*map(_quoted, definition.watermark_keys), *others]
    order = ", ".join(f"{key} DESC NULLS LAST" for key in keys)
    return f"row_number() OVER (PARTITION BY {', '.join(map(_quoted, definition.primary_key))} ORDER BY {order})"


def _comparable(name: str, kind: str) -> str:
    # Spark compares neither maps nor variants, also inside of arrays and structs.
    if re.search(r"\b(map<|variant\b|interval\b)", kind.lower()):
        return f"to_json(struct({_quoted(name)}), map('ignoreNullFields', 'false'))"
    return _quoted(name)


def _deleted(columns: Mapping[str, str], definition: MergeOnReadDefinition) -> str:
    if definition.tombstone_key is None:
        return "false"
    column = _quoted(definition.tombstone_key)
    if columns[definition.tombstone_key].lower() == "boolean":
        return f"({column} <=> true)"
    if definition.tombstone_string_key_value is not None:
        return f"({column} <=> {_literal(definition.tombstone_string_key_value)})"
    return f"({column} IS NOT NULL)"


def _literal(value: str) -> str:
    # As bytes, since settings of Spark decide what a backslash and a `${` mean in a string.
    return f"'{value}'" if _PLAIN.fullmatch(value) else f"CAST(X'{value.encode().hex()}' AS STRING)"


def free_name(columns: Iterable[str], begin: str = "_rank") -> str:
    """A name that no column has, also not in another case; as short as may be from `begin` on."""
    name, taken = begin, {column.lower() for column in columns}
    while name in taken:
        name += "_"
    return name


def _dotted(parts: Sequence[str]) -> str:
    return ".".join(map(_quoted, parts))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
