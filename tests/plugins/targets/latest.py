"""The latest row of each key of a merge-on-read table, by DuckDB's SQL, which shares no code with the replicator."""

from __future__ import annotations

import json

import duckdb
import pyarrow as pa


def latest(rows: pa.Table, properties: dict[str, str]) -> list[int]:
    """The places of the latest rows of each key that are not deleted, by what the seed says of a table's keys."""
    keys = ", ".join(map(_quoted, json.loads(properties["primary_key"])))
    order = ", ".join(f"{_quoted(name)} DESC NULLS LAST" for name in json.loads(properties["watermark_key"]))
    tombstone, value = properties["tombstone_key"], properties.get("tombstone_string_key_value")
    column = _quoted(tombstone)
    if pa.types.is_boolean(rows.schema.field(tombstone).type):
        deleted = f"coalesce({column}, false)"
    else:
        deleted = f"{column} IS NOT NULL" if value is None else f"coalesce({column} = $value, false)"
    numbered = rows.append_column("__place", pa.array(range(rows.num_rows), pa.int64()))
    connection = duckdb.connect()
    connection.register("numbered", numbered)
    found = connection.execute(
        f"SELECT __place FROM (SELECT __place, {deleted} AS gone, row_number() OVER (PARTITION BY {keys} ORDER BY {order}, "
        f"{deleted} DESC) AS nth FROM numbered) WHERE nth = 1 AND NOT gone",
        {} if value is None else {"value": value},
    ).to_arrow_table()
    return [int(place) for place in found.column(0).to_pylist()]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
