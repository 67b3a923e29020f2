"""Lists and describes the tables of the database."""

from __future__ import annotations

from replicator_sdk.discovery.table_registry import TableRegistry, TableSummary
from replicator_sdk.errors import NeedsUserError
from replicator_sdk.schema import TableId, TableSchema
from replicator_source_postgres.catalogue import Catalogue, CatalogueConnection, TableFacts
from replicator_source_postgres.connection import Endpoint, quote_identifier
from replicator_source_postgres.diagnosis import diagnosed

_LIST = """
SELECT n.nspname, c.relname,
       (SELECT count(*) FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''),
       size.rows::int8, size.bytes::int8
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL (
  SELECT CASE WHEN min(l.reltuples) < 0 THEN -1 ELSE coalesce(sum(l.reltuples), 0) END AS rows,
         coalesce(sum(pg_catalog.pg_table_size(l.oid)), 0) AS bytes
  FROM pg_catalog.pg_class l
  WHERE l.relkind = 'r' AND (l.oid = c.oid OR l.oid IN (
    SELECT relid FROM pg_catalog.pg_partition_tree(CASE WHEN c.relkind = 'p' THEN c.oid END) WHERE isleaf))
) size
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence = 'p'
  AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_(toast|temp)'
  AND pg_catalog.has_schema_privilege(n.oid, 'USAGE') AND pg_catalog.has_table_privilege(c.oid, 'SELECT')
"""


class PostgresTableRegistry(TableRegistry):
    """Tables from the catalogue, over one connection that is opened at the first use."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._database = endpoint.config.database
        self._connection = CatalogueConnection(endpoint)

    def list_tables(self) -> list[TableSummary]:
        """Ordinary and partitioned tables that the role may read; partitions are not listed."""
        database = self._database
        with diagnosed("listing tables"):
            rows = self._connection.catalogue.connection.execute(_LIST).fetchall()
        return sorted(
            (TableSummary(TableId(database, name, schema), n, count, size) for schema, name, n, count, size in rows),
            key=lambda summary: summary.table,
        )

    def describe_table(self, table: TableId) -> TableSchema:
        """The schema as it is now; generated columns are left out, because the log does not carry them."""
        with diagnosed(f"describing {table}"):
            catalogue = self._connection.catalogue
            facts = find_readable(catalogue, table)
            return catalogue.schema(facts, table)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def find_readable(catalogue: Catalogue, table: TableId) -> TableFacts:
    """The facts of a table that exists and that the role may read.

    Raises:
        NeedsUserError: When it does not exist or may not be read.
    """
    facts = catalogue.find(table)
    if facts is None:
        raise NeedsUserError(
            f"there is no table {table} in database {table.database!r}",
            code="RPL-3301",
            table=str(table),
            hint="`replicator tables` lists the tables; names are case-sensitive",
        )
    check_readable(catalogue, facts, table)
    return facts


def check_readable(catalogue: Catalogue, facts: TableFacts, table: TableId) -> None:
    """Check that the role may read the table.

    Raises:
        NeedsUserError: When it may not.
    """
    query = "SELECT pg_catalog.has_schema_privilege(%s, 'USAGE') AND pg_catalog.has_table_privilege(%s::oid, 'SELECT')"
    row = catalogue.connection.execute(query, [facts.schema, facts.oid]).fetchone()
    if not (row and row[0]):
        schema, name = quote_identifier(facts.schema), quote_identifier(facts.name)
        raise NeedsUserError(
            f"the role may not read {table}",
            code="RPL-3302",
            table=str(table),
            hint=f"GRANT USAGE ON SCHEMA {schema} TO <role>; GRANT SELECT ON {schema}.{name} TO <role>;",
        )
