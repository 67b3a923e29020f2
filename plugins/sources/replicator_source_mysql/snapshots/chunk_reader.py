"""Reads one chunk, in any process: a SELECT whose rows become Arrow columns without Python for each."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import structlog

from replicator_sdk.authoring.driver_errors import naming_table
from replicator_sdk.batch import Refusal
from replicator_sdk.config import OutOfRange
from replicator_sdk.errors import NeedsUserError, RetryableError
from replicator_sdk.schema import TableSchema
from replicator_sdk.snapshot import SnapshotChunk
from replicator_source_mysql.connect.catalogue import Catalogue
from replicator_source_mysql.connect.connection import Endpoint, driver, execute, server_of
from replicator_source_mysql.connect.diagnosis import diagnosed
from replicator_source_mysql.connect.packets import Packets
from replicator_source_mysql.definition import TableDefinition
from replicator_source_mysql.snapshots.chunk_plan import condition, fingerprint, qualified
from replicator_source_mysql.snapshots.result_set import gathered, select, split_columns
from replicator_source_mysql.snapshots.snapshot_relay import RelayAddress, relayed
from replicator_source_mysql.types.text_values import TextColumn
from replicator_source_mysql.types.values.out_of_range import Policy

if TYPE_CHECKING:
    import pymysql

log = structlog.get_logger(__name__)

MarkedBatches = Iterator[tuple[pa.RecordBatch, Mapping[str, Refusal]]]

_BATCH_ROWS = 65_536
_BATCH_BYTES = 4 << 20
"""Larger windows fall out of the processor's cache, which costs a third of the speed."""
_GONE = frozenset({1054, 1146, 1412})
"""Unknown column, no such table, definition changed since the transaction began."""
_WRONG_CONDITION = frozenset({1046, 1054, 1064, 1111, 1210, 1241, 1242, 1247, 1267, 1292, 1305, 1525, 1582, 1583, 1630})
"""Unknown column or function, wrong syntax, and what else a server says of an expression."""


@dataclass(frozen=True, slots=True)
class PlannedTable:
    """A table as its snapshot was planned; picklable.

    Attributes:
        definition: All its columns.
        schema: The columns to read.
        fingerprint: What its structure was.
        zero_dates: The source's `zeroDates`.
        out_of_range: What happens to other values the standard types cannot hold.
        rows: The condition of the rows to read; all when it is empty.
    """

    definition: TableDefinition
    schema: TableSchema
    fingerprint: str
    zero_dates: str
    out_of_range: OutOfRange
    rows: str = ""

    def columns(self, replaced: Counter[str], *, marks: bool = False) -> list[TextColumn]:
        """How each column is selected and converted; what is replaced is counted in `replaced`.

        Args:
            replaced: Added to.
            marks: Whether refused values are marked, other than the key's.
        """
        policy, key = (
            Policy(self.zero_dates, self.out_of_range, str(self.schema.table), replaced),
            self.schema.primary_key,
        )
        return [
            TextColumn(self.definition[column.name], column, policy, marks=marks and column.name not in key)
            for column in self.schema.columns
        ]

    def query(self, hint: str = "", where: str = "") -> str:
        """The SELECT of its rows."""
        listed = ", ".join(column.expression for column in self.columns(Counter()))
        if self.rows:
            where = f"{where} AND ({self.rows})" if where else f" WHERE ({self.rows})"
        return f"SELECT {listed} FROM {qualified(self.schema.table)}{hint}{where}"  # noqa: S608 - quoted names

    def check_rows(self, connection: pymysql.Connection[Any]) -> None:
        """Check that the server takes the condition of the rows; reads none.

        Args:
            connection: In no transaction; where this raises, it is of no more use.

        Raises:
            NeedsUserError: When it does not.
        """
        if not self.rows:
            return
        execute(connection, "START TRANSACTION READ ONLY")  # EXPLAIN calls functions of constants, which may write
        query = f"EXPLAIN SELECT 1 FROM {qualified(self.schema.table)} WHERE ({self.rows})"  # noqa: S608 - quoted names
        try:
            execute(connection, query)
        except driver().MySQLError as refused:
            if not refused.args or refused.args[0] not in _WRONG_CONDITION:
                raise
            raise NeedsUserError(
                f"the table's `where` is refused: {refused.args[-1]}",
                code="RPL-3826",
                hint="correct `where` of the table in `tables`; it is a condition of MySQL over the table's columns, with the database of each function and other table",
                table=str(self.schema.table),
            ) from None
        connection.rollback()

    def check(self, connection: pymysql.Connection[Any]) -> None:
        """Whether the table still is what was planned; it stays so until the transaction on `connection` ends.

        Raises:
            RetryableError: When it is not.
        """
        # The first access takes the metadata lock, and only after it the catalogue is reliable.
        execute(connection, f"SELECT 1 FROM {qualified(self.schema.table)} LIMIT 0")  # noqa: S608 - quoted names
        now = Catalogue(connection).find(self.definition.table)
        if now is None or fingerprint(connection, now) != self.fingerprint:
            raise self.changed()

    def changed(self) -> RetryableError:
        """The error of a table that is no longer what was planned."""
        return RetryableError(
            f"the structure of {self.schema.table} changed while its snapshot was read",
            code="RPL-3820",
            table=str(self.schema.table),
            hint="it is taken again",
        )

    @contextlib.contextmanager
    def diagnosed(self) -> Iterator[None]:
        """Errors inside become `ReplicatorError`s with the table; a table that no longer exists was changed after planning."""
        errors = driver().MySQLError
        with naming_table(self.schema.table), diagnosed(f"reading {self.schema.table}"):
            try:
                yield
            except errors as err:
                if err.args and err.args[0] in _GONE:
                    raise self.changed() from None
                raise


def begin_read(connection: pymysql.Connection[Any], *, with_snapshot: bool = False, seconds: int = 0) -> None:
    """Begin a transaction that sees one moment: that of its first access, or of now.

    Args:
        connection: In no transaction.
        with_snapshot: Whether the moment is now.
        seconds: How long one statement may take; 0 for no limit.
    """
    is_mariadb = server_of(connection).is_mariadb
    limit = f"max_statement_time = {seconds}" if is_mariadb else f"max_execution_time = {seconds * 1000}"
    execute(connection, f"SET SESSION {limit}, sql_select_limit = DEFAULT")
    execute(connection, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    execute(connection, f"START TRANSACTION {'WITH CONSISTENT SNAPSHOT, ' if with_snapshot else ''}READ ONLY")


@dataclass(frozen=True, slots=True)
class ChunkSelect:
    """Reads a chunk over a connection and in a transaction of its own; see `ChunkReader`.

    The rows are those of the moment of reading. Holds the password in a form that does not print.
    """

    endpoint: Endpoint
    planned: PlannedTable

    def __call__(self, chunk: SnapshotChunk) -> Iterator[pa.RecordBatch]:
        """The rows of `chunk` in batches of the table's Arrow schema."""
        for rows, _ in self._batches(chunk, marks=False):
            yield rows

    def marked(self, chunk: SnapshotChunk) -> MarkedBatches:
        """The rows of `chunk` with what is refused of them; see `MarkedChunkReader`."""
        return self._batches(chunk, marks=True)

    def _batches(self, chunk: SnapshotChunk, *, marks: bool) -> MarkedBatches:
        with contextlib.closing(self.endpoint.connect()) as connection:
            with self.planned.diagnosed():
                begin_read(connection)
                self.planned.check(connection)
            query = self.planned.query(*condition(chunk.bounds))
            rows = select(connection, query, len(self.planned.schema.columns), f"reading {self.planned.schema.table}")
            yield from batches(rows, self.planned, chunk.index, marks=marks)


@dataclass(frozen=True, slots=True)
class RelayedRead:
    """Reads a whole table through the driver, exactly at the snapshot's moment; see `ChunkReader`."""

    address: RelayAddress
    planned: PlannedTable

    def __call__(self, chunk: SnapshotChunk) -> Iterator[pa.RecordBatch]:
        """The rows of the table in batches of its Arrow schema."""
        for rows, _ in self._batches(chunk, marks=False):
            yield rows

    def marked(self, chunk: SnapshotChunk) -> MarkedBatches:
        """The rows of the table with what is refused of them; see `MarkedChunkReader`."""
        return self._batches(chunk, marks=True)

    def _batches(self, chunk: SnapshotChunk, *, marks: bool) -> MarkedBatches:
        rows = relayed(self.address, str(self.planned.schema.table))
        return batches(rows, self.planned, chunk.index, marks=marks)


def batches(rows: Iterator[Packets], planned: PlannedTable, chunk: int, *, marks: bool) -> MarkedBatches:
    """Packets as record batches with what is refused of them; what a policy replaced is reported once at the end."""
    replaced: Counter[str] = Counter()
    columns, schema = planned.columns(replaced, marks=marks), planned.schema
    doing = f"reading {schema.table}"
    with planned.diagnosed():
        for window in gathered(rows, _BATCH_ROWS, _BATCH_BYTES):
            raw = split_columns(window, len(columns), doing)
            found = [column.convert_marked(values) for column, values in zip(columns, raw, strict=True)]
            refused = {c.target.name: r for c, (_, r) in zip(columns, found, strict=True) if r is not None}
            yield pa.RecordBatch.from_arrays([values for values, _ in found], schema=schema.arrow), refused
    if replaced:
        log.warning(
            "snapshot.values_replaced", table=str(schema.table), chunk=chunk, **{str(k): n for k, n in replaced.items()}
        )


def missing_columns(planned: TableSchema, wanted: TableSchema) -> NeedsUserError:
    """The error of selected columns that the table no longer has."""
    gone = sorted(set(wanted.names) - set(planned.names))
    return NeedsUserError(
        f"{wanted.table} has no columns {gone} any more",
        code="RPL-3824",
        table=str(wanted.table),
        hint="take them out of the table's `columns`",
    )
