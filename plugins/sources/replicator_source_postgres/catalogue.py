"""Reads tables, columns and types from the server's catalogue."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from replicator_sdk.schema import Column, TableId, TableSchema
from replicator_source_postgres.connection import Endpoint
from replicator_source_postgres.types.mapping import PgType, standard_type

if TYPE_CHECKING:
    import psycopg

_TYPES = """
SELECT t.oid::int8, t.typbasetype::int8, t.typtypmod, coalesce(e.oid, 0)::int8, t.typdelim
FROM pg_catalog.pg_type t LEFT JOIN pg_catalog.pg_type e ON e.typarray = t.oid
WHERE t.oid = ANY(%s)
"""

_TABLE = """
SELECT c.oid::int8, n.nspname, c.relname, c.relkind::text, c.relpersistence::text, c.relreplident::text,
       c.relrowsecurity, c.relispartition, c.relfilenode::int8
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
"""

_COLUMNS = """
SELECT a.attname, a.attnum::int4, a.atttypid::int8, a.atttypmod, a.attnotnull, a.attgenerated::text,
       pg_catalog.format_type(a.atttypid, a.atttypmod), a.atthasdef, a.atthasmissing, a.attmissingval::text
FROM pg_catalog.pg_attribute a
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""

_KEYS = """
SELECT i.indisprimary, i.indisreplident, ARRAY(
         SELECT a.attname::text FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, rank)
         JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
         WHERE k.rank <= i.indnkeyatts ORDER BY k.rank)
FROM pg_catalog.pg_index i
WHERE i.indrelid = %s AND i.indisvalid AND (i.indisprimary OR i.indisreplident) AND i.indimmediate
"""
# A deferrable key may have duplicates between two changes of a transaction, so it does not identify rows; the server does
# not accept it as a replica identity either.


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """One live column of a table.

    Attributes:
        name: Its name.
        attnum: Its attribute number, never used again for another column of the table.
        type_oid: Its type, not resolved.
        typmod: Its type modifier.
        not_null: Whether NULL is forbidden.
        is_generated: Whether its values are computed; such columns are not in the log by default.
        source_type: Its type as SQL writes it.
        has_default: Whether it has a default expression now.
        missing: The value that rows older than the column have, as a one-element array literal; None when there is none
            or the table was rewritten since.
    """

    name: str
    attnum: int
    type_oid: int
    typmod: int
    not_null: bool
    is_generated: bool
    source_type: str
    has_default: bool
    missing: str | None


@dataclass(frozen=True, slots=True)
class TableFacts:
    """One table as it is now.

    Attributes:
        oid: Its object identifier.
        schema: Its schema.
        name: Its name.
        kind: `r` ordinary, `p` partitioned.
        persistence: `p` permanent, `u` unlogged, `t` temporary.
        identity: Replica identity: `d`, `n`, `f`, `i`.
        row_security: Whether policies may hide rows.
        is_partition: Whether it is a partition of another table.
        storage: Its file; another one after a rewrite.
        columns: In attribute order, without generated ones.
        generated: Names of the generated columns.
        primary_key: The primary key in key order.
        identity_index: Columns of the index of REPLICA IDENTITY USING INDEX.
    """

    oid: int
    schema: str
    name: str
    kind: str
    persistence: str
    identity: str
    row_security: bool
    is_partition: bool
    storage: int
    columns: tuple[ColumnFacts, ...]
    generated: tuple[str, ...]
    primary_key: tuple[str, ...]
    identity_index: tuple[str, ...]

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that identify rows in the log: the replica identity's, or under FULL the primary key."""
        if self.identity == "i":
            return self.identity_index
        return () if self.identity == "n" else self.primary_key

    @property
    def is_blocking(self) -> bool:
        """Whether publishing it would make the application's own UPDATE and DELETE fail: no row is identified."""
        return self.identity != "f" and not self.key


class Catalogue:
    """Queries the catalogue over one connection; caches types, which do not change, and nothing else."""

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]], database: str) -> None:
        self.connection = connection
        self._database = database
        self._types: dict[int, PgType] = {}

    def find(self, table: TableId) -> TableFacts | None:
        """The table with that name now; None when there is none."""
        query = _TABLE + "WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p')"
        return self._facts(self.connection.execute(query, [table.schema, table.table]).fetchone())

    def by_oid(self, oid: int) -> TableFacts | None:
        """The table with that identifier now, whatever its name; None when it was dropped."""
        return self._facts(self.connection.execute(_TABLE + "WHERE c.oid = %s", [oid]).fetchone())

    def _facts(self, row: Sequence[Any] | None) -> TableFacts | None:
        if row is None:
            return None
        columns = [
            ColumnFacts(name, num, kind, mod, not_null, generated != "", written, default, missing if old else None)
            for name, num, kind, mod, not_null, generated, written, default, old, missing in self.connection.execute(
                _COLUMNS, [row[0]]
            )
        ]
        keys = self.connection.execute(_KEYS, [row[0]]).fetchall()
        oid, schema, name, kind, persistence, identity, row_security, is_partition, storage = row
        return TableFacts(
            oid,
            schema,
            name,
            kind,
            persistence,
            identity,
            row_security,
            is_partition,
            storage,
            columns=tuple(c for c in columns if not c.is_generated),
            generated=tuple(c.name for c in columns if c.is_generated),
            primary_key=next((tuple(names) for primary, _, names in keys if primary), ()),
            identity_index=next((tuple(names) for _, chosen, names in keys if chosen), ()),
        )

    def names(self, oids: Sequence[int]) -> dict[int, TableId]:
        """The names of tables now, all of one moment; those that were dropped are missing."""
        query = """SELECT c.oid::int8, c.relname, n.nspname FROM pg_catalog.pg_class c
                   JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = ANY(%s)"""
        rows = self.connection.execute(query, [oids])
        return {oid: TableId(self._database, table, schema) for oid, table, schema in rows}

    def leaves(self, oid: int) -> list[int]:
        """The identifiers of a partitioned table's leaf partitions, sorted."""
        query = "SELECT relid::oid::int8 FROM pg_catalog.pg_partition_tree(%s::oid::regclass) WHERE isleaf ORDER BY 1"
        return [row[0] for row in self.connection.execute(query, [oid])]

    def type_of(self, oid: int) -> PgType:
        """A type, as far as values depend on it; one that was dropped counts as text."""
        if oid not in self._types:
            row = self.connection.execute(_TYPES, [[oid]]).fetchone()
            self._types[oid] = PgType(*row) if row else PgType(oid)
        return self._types[oid]

    def casts_to_text(self) -> frozenset[int]:
        """Types with a cast to text of their own, other than through their output function."""
        rows = self.connection.execute(
            "SELECT castsource::int8 FROM pg_catalog.pg_cast WHERE casttarget = 25 AND castmethod <> 'i'"
        )
        return frozenset(row[0] for row in rows)

    def type_name(self, oid: int, typmod: int) -> str:
        """A type as SQL writes it, e.g. `numeric(12,2)`."""
        row = self.connection.execute("SELECT pg_catalog.format_type(%s::oid, %s)", [oid, typmod]).fetchone()
        return str(row[0]) if row else ""

    def column(self, facts: ColumnFacts) -> Column:
        """The standard column of a catalogue column."""
        kind = standard_type(facts.type_oid, facts.typmod, self.type_of)
        return Column(facts.name, kind, not facts.not_null, facts.source_type, str(facts.attnum))

    def schema(self, facts: TableFacts, table: TableId | None = None) -> TableSchema:
        """The standard schema of a table: its columns without the generated ones, and its key."""
        table = table or TableId(self._database, facts.name, facts.schema)
        return TableSchema(table, tuple(map(self.column, facts.columns)), facts.key, str(facts.oid))


class CatalogueConnection:
    """The catalogue over a connection of its own, opened at the first use, and again at a use after `close`.

    Args:
        endpoint: Where to connect.
        statement_timeout_seconds: How long one query may take; 0 for no limit.
    """

    def __init__(self, endpoint: Endpoint, *, statement_timeout_seconds: int = 60) -> None:
        self._endpoint = endpoint
        self._timeout = statement_timeout_seconds
        self._opened: Catalogue | None = None

    @property
    def catalogue(self) -> Catalogue:
        """The catalogue, connected.

        Raises:
            ReplicatorError: When the server cannot be reached.
        """
        if self._opened is None:
            connection = self._endpoint.connect(statement_timeout_seconds=self._timeout)
            self._opened = Catalogue(connection, self._endpoint.config.database)
        return self._opened

    def close(self) -> None:
        """Close the connection, if there is one; never raises."""
        if self._opened is not None:
            with contextlib.suppress(Exception):
                self._opened.connection.close()
            self._opened = None
