"""Lists and describes the server's tables."""

from __future__ import annotations

import contextlib
import time

from replicator_sdk.discovery.table_registry import TableRegistry, TableSummary
from replicator_sdk.errors import NeedsUserError
from replicator_sdk.schema import TableId, TableSchema
from replicator_source_mysql.connect.catalogue import SYSTEM_DATABASES, Catalogue
from replicator_source_mysql.connect.connection import Endpoint, execute
from replicator_source_mysql.connect.diagnosis import diagnosed
from replicator_source_mysql.connect.grants import read_grants
from replicator_source_mysql.snapshots.snapshot import find_table
from replicator_source_mysql.types.mapping import table_schema

_SYSTEM = ", ".join(f"'{name}'" for name in sorted(SYSTEM_DATABASES))
_LIST = f"""
SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_ROWS, DATA_LENGTH + INDEX_LENGTH FROM information_schema.TABLES
WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED') AND TABLE_SCHEMA NOT IN ({_SYSTEM})
"""  # noqa: S608 - constants
_WIDTHS = f"""
SELECT TABLE_SCHEMA, TABLE_NAME, COUNT(*) FROM information_schema.COLUMNS
WHERE TABLE_SCHEMA NOT IN ({_SYSTEM}) GROUP BY TABLE_SCHEMA, TABLE_NAME
"""  # noqa: S608 - as above

_LOOKS, _LOOK_SECONDS = 8, 0.1
_SKIPPED = 1684  # ER_WARN_I_S_SKIPPED_TABLE


class MySqlTableRegistry(TableRegistry):
    """The catalogue over one connection, opened at the first call."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._catalogue: Catalogue | None = None

    def _open(self) -> Catalogue:
        if self._catalogue is None:
            self._catalogue = Catalogue(self._endpoint.connect())
        return self._catalogue

    def list_tables(self) -> list[TableSummary]:
        """Tables of every database but the system's own of which the account may read each column; no views.

        Rows and bytes are the storage engine's estimates. MariaDB's catalogue leaves out a table that is being renamed,
        or that another one takes the place of: a list with that warning, or unlike the one before, is asked for again.
        While tables are altered all the time, what any of the lists holds is returned.
        """
        found, is_whole = self._list()
        if not self._open().server.is_mariadb:
            return found
        seen = {one.table: one for one in found}
        for _ in range(_LOOKS):
            before, (found, is_whole) = found, self._list()
            if is_whole and [one.table for one in before] == [one.table for one in found]:
                return found
            seen |= {one.table: one for one in found}
            time.sleep(_LOOK_SECONDS)
        return [seen[table] for table in sorted(seen)]

    def _list(self) -> tuple[list[TableSummary], bool]:
        """The tables, and whether the server left none out because it was being altered."""
        with diagnosed("listing tables"):
            connection = self._open().connection
            grants = read_grants(connection)
            widths = {TableId(row[0], row[1]): int(row[2]) for row in execute(connection, _WIDTHS)}
            warnings = [*execute(connection, "SHOW WARNINGS")]
            found = {TableId(row[0], row[1]): row[2:] for row in execute(connection, _LIST)}
            warnings += execute(connection, "SHOW WARNINGS")
        is_whole = widths.keys() >= found.keys() and all(int(code) != _SKIPPED for _, code, *_ in warnings)
        summaries = sorted(
            (
                TableSummary(table, widths[table], *(-1 if number is None else int(number) for number in numbers))
                for table, numbers in found.items()
                if table in widths and not grants.is_partial(table)
            ),
            key=lambda summary: summary.table,
        )
        return summaries, is_whole

    def describe_table(self, table: TableId) -> TableSchema:
        """The schema as it is now, with generated and invisible columns: the binlog carries them too."""
        with diagnosed(f"describing {table}"):
            catalogue = self._open()
            definition = find_table(catalogue, table)
            if read_grants(catalogue.connection).is_partial(table):
                raise NeedsUserError(
                    f"the account may read some columns of {table} only, and does not see the others",
                    code="RPL-3851",
                    table=str(table),
                    hint="grant SELECT on the whole table; `replicator assess` prints the statement",
                )
        return table_schema(definition, zero_dates=self._endpoint.config.zero_dates)

    def close(self) -> None:
        """Close the connection."""
        if self._catalogue is not None:
            with contextlib.suppress(Exception):
                self._catalogue.connection.close()
            self._catalogue = None
