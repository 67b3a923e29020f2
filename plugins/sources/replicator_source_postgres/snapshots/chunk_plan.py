"""Plans how a table is divided into chunks that are read in parallel.

Three kinds of chunks, depending on the table:

* `key`: ranges of the key's first column. A row stays in its range unless its key changes, so an interrupted snapshot
  can be finished at a later position. Chosen when the key follows the storage order (or nothing better is possible), since
  ranges of a scattered key make the server read every page again and again.
* `ctid`: ranges of pages, read like a sequential scan (PostgreSQL 14 and later).
* `whole`: one chunk.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from replicator_sdk.schema import TableSchema
from replicator_sdk.snapshot import SnapshotChunk
from replicator_source_postgres.catalogue import Catalogue, TableFacts
from replicator_source_postgres.connection import quote_identifier, quote_literal, statement

_BYTES_PER_ROW = 150
_SAMPLES_PER_CHUNK = 300
_FOLLOWS_STORAGE = 0.8

_SIZE = """
SELECT greatest(c.reltuples, 0)::int8, pg_catalog.pg_relation_size(c.oid)::int8,
       pg_catalog.pg_relation_size(c.oid) / pg_catalog.current_setting('block_size')::int8,
       c.reltoastrelid <> 0, pg_catalog.pg_relation_filenode(c.oid)::int8
FROM pg_catalog.pg_class c WHERE c.oid = %s
"""

_CORRELATION = """
SELECT abs(correlation) FROM pg_catalog.pg_stats WHERE schemaname = %s AND tablename = %s AND attname = %s
"""


@dataclass(frozen=True, slots=True)
class StoredTable:
    """One stored table: an ordinary table or a leaf partition.

    Attributes:
        oid: Its identifier.
        name: Its quoted full name.
        only: Whether to leave children of plain inheritance out.
        rows: About how many rows.
        pages: How many pages; 0 for a partitioned table read as a whole.
        has_toast: Whether values may be stored out of line.
        filenode: Its file; another one after a rewrite. 0 for a partitioned table read as a whole.
    """

    oid: int
    name: str
    only: bool
    rows: int
    pages: int
    has_toast: bool
    filenode: int


def stored_tables(catalogue: Catalogue, facts: TableFacts) -> list[StoredTable]:
    """The stored tables of a table: itself, or its leaf partitions where the role may read each of them."""
    if facts.kind != "p":
        return [_storage(catalogue, facts)]
    leaves = [leaf for oid in catalogue.leaves(facts.oid) if (leaf := catalogue.by_oid(oid)) is not None]
    readable = "SELECT bool_and(pg_catalog.has_table_privilege(o, 'SELECT')) FROM unnest(%s::oid[]) o"
    row = catalogue.connection.execute(readable, [[leaf.oid for leaf in leaves]]).fetchone()
    if leaves and row and row[0] and all(leaf.kind == "r" for leaf in leaves):
        return [_storage(catalogue, leaf) for leaf in leaves]
    rows = sum(_storage(catalogue, leaf).rows for leaf in leaves)
    return [StoredTable(facts.oid, full_name(facts), only=False, rows=rows, pages=0, has_toast=True, filenode=0)]


def _storage(catalogue: Catalogue, facts: TableFacts) -> StoredTable:
    row = catalogue.connection.execute(_SIZE, [facts.oid]).fetchone()
    tuples, size, pages, has_toast, filenode = row or (0, 0, 0, True, 0)
    rows = tuples or size // _BYTES_PER_ROW
    return StoredTable(
        facts.oid, full_name(facts), only=True, rows=rows, pages=pages, has_toast=has_toast, filenode=filenode
    )


def full_name(facts: TableFacts) -> str:
    """The table's schema and name as SQL writes them."""
    return f"{quote_identifier(facts.schema)}.{quote_identifier(facts.name)}"


@dataclass(frozen=True, slots=True)
class ChunkPlan:
    """The chunks of a table, and whether an interrupted snapshot may use them again."""

    chunks: tuple[SnapshotChunk, ...]
    resumable: bool


def plan_chunks(catalogue: Catalogue, schema: TableSchema, parts: Sequence[StoredTable], chunk_rows: int) -> ChunkPlan:
    """Divide a table into chunks of about `chunk_rows` rows."""
    bounds: list[tuple[Mapping[str, Any], int]] = []
    for part in parts:
        count = max(1, -(-part.rows // chunk_rows))
        ranges = list(_bounds(catalogue, schema, part, count)) if count > 1 else [{"kind": "whole"}]
        bounds += [({"relation": part.oid, **bound}, part.rows // len(ranges)) for bound in ranges]
    chunks = tuple(SnapshotChunk(index, bound, rows) for index, (bound, rows) in enumerate(bounds))
    moves_away = any(b["kind"] == "ctid" for b, _ in bounds) and any(part.has_toast for part in parts)
    # A row that moved to a page already read is read from the log, but without its unchanged TOAST values.
    return ChunkPlan(chunks, resumable=bool(schema.primary_key) and not moves_away)


def _bounds(catalogue: Catalogue, schema: TableSchema, part: StoredTable, count: int) -> Iterator[dict[str, Any]]:
    has_tid_scan = catalogue.connection.info.server_version >= 140000 and part.pages > 0
    if schema.primary_key and (not has_tid_scan or _follows_storage(catalogue, schema, part)):
        yield from _key_ranges(catalogue, schema, part, count)
    elif has_tid_scan:
        step = max(1, -(-part.pages // count))
        starts = list(range(0, part.pages, step))
        for start, end in zip(starts, [*starts[1:], None], strict=True):
            # The last range is open: pages may have been added since the size was read.
            yield {"kind": "ctid", "from": start, "to": end}
    else:
        yield {"kind": "whole"}


def _follows_storage(catalogue: Catalogue, schema: TableSchema, part: StoredTable) -> bool:
    facts = catalogue.by_oid(part.oid)
    if facts is None:
        return True
    values = [facts.schema, facts.name, schema.primary_key[0]]
    row = catalogue.connection.execute(_CORRELATION, values).fetchone()
    return row is None or row[0] is None or row[0] >= _FOLLOWS_STORAGE


def _key_ranges(catalogue: Catalogue, schema: TableSchema, part: StoredTable, count: int) -> Iterator[dict[str, Any]]:
    """Ranges between quantiles of a sample, so that a skewed key has chunks of equal size, too."""
    name = schema.primary_key[0]
    column, percent = quote_identifier(name), min(100.0, 100.0 * _SAMPLES_PER_CHUNK * count / max(1, part.rows))
    sample = "" if part.pages == 0 else f" TABLESAMPLE SYSTEM ({percent}) REPEATABLE (1)"
    fractions = [n / count for n in range(1, count)]
    query = f"""SELECT DISTINCT ON (q.cut) q.cut::text AS bound FROM (
      SELECT unnest(percentile_disc(%s::float8[]) WITHIN GROUP (ORDER BY {column})) AS cut
      FROM {"ONLY " if part.only else ""}{part.name}{sample}) q
      WHERE q.cut IS NOT NULL ORDER BY q.cut"""  # noqa: S608 - quoted names
    cuts = [row[0] for row in catalogue.connection.execute(statement(query), [fractions])]
    kind = schema[name].source_type
    for low, high in zip([None, *cuts], [*cuts, None], strict=True):
        yield {"kind": "key", "column": name, "type": kind, "from": low, "to": high}


def chunk_condition(bounds: Mapping[str, Any]) -> str:
    """The WHERE clause of a chunk; empty for a whole one."""
    if bounds["kind"] == "whole":
        return ""
    if bounds["kind"] == "ctid":
        low, high = f"'({bounds['from']},0)'::tid", bounds["to"]
        return f" WHERE ctid >= {low}" + ("" if high is None else f" AND ctid < '({high},0)'::tid")
    column = quote_identifier(bounds["column"])
    limits = [
        f"{column} {operator} {quote_literal(bounds[end])}::{bounds['type']}"
        for end, operator in (("from", ">="), ("to", "<"))
        if bounds[end] is not None
    ]
    return f" WHERE {' AND '.join(limits)}" if limits else ""
