"""Source and copy as multisets of rows, the copy read by a package that shares no code with the replicator."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from psycopg import sql

Row = tuple[Any, ...]
# Types that arrive as text: how the source itself writes them.
_AS_TEXT = {"json", "jsonb", "uuid"}


def assert_equal_copies(connection: psycopg.Connection[Any], lake: Path, tables: Sequence[tuple[str, str]]) -> int:
    """Assert that every (schema, table) and its copy hold the same rows equally often; returns how many rows."""
    total, different = _compared(connection, lake, tables)
    assert not different, "\n".join(different)
    return total


def copies_differ(connection: psycopg.Connection[Any], lake: Path, tables: Sequence[tuple[str, str]]) -> str:
    """How the tables and their copies differ, a line a table; empty when they do not."""
    return "\n".join(_compared(connection, lake, tables)[1])


def _compared(
    connection: psycopg.Connection[Any], lake: Path, tables: Sequence[tuple[str, str]]
) -> tuple[int, list[str]]:
    """How many rows the tables have, and a line for each that differs from its copy."""
    different = []
    total = 0
    for schema, table in tables:
        columns = _columns(connection, schema, table)
        source = Counter(_source_rows(connection, schema, table, columns))
        target = Counter(delta_rows(lake / schema / table.replace('"', "~22"), [name for name, _ in columns]))
        total += source.total()
        if source != target:
            missing, surplus = source - target, target - source
            different.append(
                f"{schema}.{table}: {source.total()} rows at the source, {target.total()} in the copy; "
                f"missing {missing.total()}, as {_short(missing)}; surplus {surplus.total()}, as {_short(surplus)}"
            )
    return total, different


def _short(rows: Counter[Row]) -> str:
    return "; ".join(repr(row)[:300] for row in list(rows)[:3])


def _columns(connection: psycopg.Connection[Any], schema: str, table: str) -> list[tuple[str, str]]:
    found = connection.execute(
        "SELECT column_name, data_type FROM information_schema.columns WHERE (table_schema, table_name) = (%s, %s)"
        " ORDER BY ordinal_position",
        [schema, table],
    )
    return [(name, kind) for name, kind in found]


def _source_rows(
    connection: psycopg.Connection[Any], schema: str, table: str, columns: Sequence[tuple[str, str]]
) -> Iterator[Row]:
    form = {True: sql.SQL("{}::text"), False: sql.SQL("{}")}
    listed = sql.SQL(", ").join(form[kind in _AS_TEXT].format(sql.Identifier(name)) for name, kind in columns)
    query = sql.SQL("SELECT {} FROM {}").format(listed, sql.Identifier(schema, table))
    for row in connection.execute(query):
        yield tuple(map(_plain, row))


def delta_rows(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    """The rows of a Delta table; none when it is not there."""
    if any((path / "_delta_log").glob("*.json")):  # the folder of the log comes before its first commit
        yield from table_rows(DeltaTable(str(path)), columns)


def table_rows(table: DeltaTable, columns: Sequence[str]) -> Iterator[Row]:
    """The rows of an opened Delta table."""
    listed = ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
    for batch in QueryBuilder().register("copy", table).execute(f"SELECT {listed} FROM copy"):
        arrays = [column.to_pylist() for column in pa.record_batch(batch).columns]
        yield from (tuple(map(_plain, row)) for row in zip(*arrays, strict=True))


def _plain(value: Any) -> Any:
    """A hashable form in which equal values are equal."""
    if isinstance(value, list):
        return tuple(map(_plain, value))
    if isinstance(value, dict):
        return json.dumps(value, sort_keys=True)
    return value
