"""Snapshots of tables.

A table with a key is read in chunks, each at its own moment after `position`: what the log holds of the time between
is applied as upserts and deletes. A table without a key has nothing to upsert by, so it is read exactly at `position`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from replicator_sdk.config import OutOfRange
from replicator_sdk.errors import NeedsUserError, RetryableError
from replicator_sdk.offset import Offset
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.snapshot import SnapshotChunk, SnapshotReader, TableSnapshot
from replicator_source_mysql.connect.catalogue import Catalogue
from replicator_source_mysql.connect.connection import Endpoint, execute
from replicator_source_mysql.definition import TableDefinition
from replicator_source_mysql.snapshots import chunk_plan as cutting
from replicator_source_mysql.snapshots.chunk_reader import ChunkSelect, PlannedTable, RelayedRead, missing_columns
from replicator_source_mysql.snapshots.locked_snapshot import LockedSnapshot
from replicator_source_mysql.snapshots.snapshot_relay import SnapshotRelay
from replicator_source_mysql.types.mapping import table_schema

if TYPE_CHECKING:
    import pymysql

PositionOf = Callable[["pymysql.Connection[Any]"], Offset]
"""Where the server's binlog ends now."""
Proven = Callable[[Offset], Offset]
"""Adds to a position what identifies its file; asks the server, so nothing is locked meanwhile."""


class MySqlSnapshotReader(SnapshotReader):
    """Opens snapshots. A keyed one holds nothing at the server; a keyless one a transaction until closed.

    Args:
        endpoint: Where to connect.
        position: Returns the end of the binlog.
        out_of_range: What happens to values the standard types cannot hold.
        narrowed: Tables of which only the columns given to `open` are read; of all others every column there is.
        proven: Adds to a snapshot's position what identifies its file.
        conditions: Tables of which only some rows are read.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        position: PositionOf,
        out_of_range: OutOfRange = OutOfRange.FAIL,
        narrowed: frozenset[TableId] = frozenset(),
        proven: Proven = lambda position: position,
        conditions: Mapping[TableId, str] = MappingProxyType({}),
    ) -> None:
        self._endpoint = endpoint
        self._position = position
        self._out_of_range = out_of_range
        self._narrowed = narrowed
        self._proven = proven
        self._conditions = conditions

    def open(self, schema: TableSchema, chunks: Sequence[SnapshotChunk] = ()) -> TableSnapshot:
        """A snapshot of one table; kept chunks of a key that has changed since are replaced by new ones."""
        with self._endpoint.session() as connection:
            planned = self._plan(connection, schema)
            planned.check_rows(connection)
            partial = _partial_updates(connection)
            if not planned.schema.primary_key:
                exact = ExactSnapshot(self._endpoint, planned, self._position, self._proven)
                exact.partial_updates = partial
                return exact
            position = self._proven(self._position(connection))
            if self._plan(connection, schema).fingerprint != planned.fingerprint:
                raise planned.changed()
            fits = not chunks or cutting.fits(chunks, connection, planned.definition)
            kept = tuple(chunks) if fits else ()
            cut = kept or cutting.plan(connection, planned.definition, self._endpoint.config.chunk_rows)
        keyed = KeyedSnapshot(self._endpoint, planned, position, self._position, cut, resumable=fits)
        keyed.partial_updates = partial
        return keyed

    def _plan(self, connection: pymysql.Connection[Any], wanted: TableSchema) -> PlannedTable:
        definition = Catalogue(connection).find(wanted.table)
        if definition is None:
            raise RetryableError(
                "the table was dropped or renamed just before it was to be copied",
                code="RPL-3829",
                table=str(wanted.table),
                hint="nothing to do: the attempt is repeated with the tables that are there then",
            )
        config = self._endpoint.config
        names = wanted.names if wanted.table in self._narrowed else None
        schema = table_schema(definition, zero_dates=config.zero_dates, names=names)
        if names is not None and set(names) - set(schema.names):
            raise missing_columns(schema, wanted)
        structure = cutting.fingerprint(connection, definition)
        rows = self._conditions.get(wanted.table, "")
        return PlannedTable(definition, schema, structure, config.zero_dates, self._out_of_range, rows)


def _partial_updates(connection: pymysql.Connection[Any]) -> str:
    """Whether updates may be logged without the columns that they left as they were."""
    image = str(execute(connection, "SELECT @@GLOBAL.binlog_row_image")[0][0]).upper()
    if image.startswith("FULL"):
        return ""
    return f"binlog_row_image is {image}: SET GLOBAL binlog_row_image = 'FULL', and have the applications connect again"


def find_table(catalogue: Catalogue, table: TableId) -> TableDefinition:
    """The definition of a table that exists and may be read.

    Raises:
        NeedsUserError: When it is not.
    """
    definition = catalogue.find(table)
    if definition is None:
        raise NeedsUserError(
            f"there is no table {table} that the account may read",
            code="RPL-3825",
            table=str(table),
            hint="`replicator tables` lists what there is; names may be case-sensitive; `replicator assess` prints missing grants",
        )
    return definition


class KeyedSnapshot(TableSnapshot):
    """Chunks of a key, each read at a moment between `position` and `end()`."""

    def __init__(
        self,
        endpoint: Endpoint,
        planned: PlannedTable,
        position: Offset,
        position_now: PositionOf,
        chunks: tuple[SnapshotChunk, ...],
        *,
        resumable: bool,
    ) -> None:
        self._endpoint = endpoint
        self._position_now = position_now
        self.schema = planned.schema
        self.position = position
        self.chunks = chunks
        self.resumable = resumable
        self.read = select = ChunkSelect(endpoint, planned)
        self.read_marked = select.marked

    def end(self) -> Offset | None:
        """The end of the binlog now."""
        with self._endpoint.session() as connection:
            return self._position_now(connection)

    def close(self) -> None:
        """Nothing is held."""


class ExactSnapshot(TableSnapshot):
    """A whole table at `position`, read through the driver."""

    def __init__(self, endpoint: Endpoint, planned: PlannedTable, position: PositionOf, proven: Proven) -> None:
        self._held = LockedSnapshot(endpoint, planned, position)
        try:
            self.position = proven(self._held.position)
            self._relay = SnapshotRelay(*driver_address(), self._held.rows)
        except BaseException:
            self._held.close()
            raise
        self._is_closed = False
        self.schema = planned.schema
        self.chunks = (SnapshotChunk(0, cutting.WHOLE),)
        self.resumable = False
        self.read = relayed = RelayedRead(self._relay.address, planned)
        self.read_marked = relayed.marked

    def close(self) -> None:
        """End the relay, the transaction and, where there is one, the lock."""
        if self._is_closed:
            return
        self._is_closed = True
        self._held.interrupt()
        self._relay.close()
        self._held.close()


def driver_address() -> tuple[str, str]:
    """Where to listen in the driver, and at which address Spark's executors reach it.

    Without Spark, or with executors in this process or on this machine, no other machine has to reach it.
    """
    sql = sys.modules.get("pyspark")
    context = sql.SparkContext._active_spark_context if sql else None  # noqa: SLF001 - the session of any thread
    if context is None or context.master.startswith("local"):
        return "127.0.0.1", "127.0.0.1"
    settings = context.getConf()
    host = str(settings.get("spark.driver.host"))
    return str(settings.get("spark.driver.bindAddress", host)), host
