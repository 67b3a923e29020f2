"""Reads one chunk in any process: by ADBC where that is exact, else by COPY in text format.

ADBC reads COPY's binary form into Arrow without Python in between, at about a third of the cost. Both give the same values
(`types.adbc`). When ADBC fails before its first row, COPY reads the chunk, and raises the error if there is one.

ADBC begins each connection with a query of the columns of all tables of the database, so a small chunk is read by COPY: else
the time to copy n small tables would grow with the square of n.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import structlog

from replicator_sdk.authoring.driver_errors import naming_table, translated_errors
from replicator_sdk.batch import Refusal
from replicator_sdk.config import OutOfRange
from replicator_sdk.errors import NeedsUserError, RetryableError
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.snapshot import SnapshotChunk
from replicator_source_postgres.connection import Endpoint, driver, quote_identifier, quote_literal, statement
from replicator_source_postgres.diagnosis import diagnosed
from replicator_source_postgres.snapshots.chunk_plan import StoredTable, chunk_condition
from replicator_source_postgres.snapshots.copy_format import split_columns
from replicator_source_postgres.types.adbc import AdbcConverter
from replicator_source_postgres.types.convert import Converter

if TYPE_CHECKING:
    import psycopg
    from psycopg.pq.abc import PGconn

log = structlog.get_logger(__name__)

_BATCH_ROWS = 65_536
_BATCH_BYTES = 16 << 20
_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_ADBC_ROWS = 10_000
_INDEX_ONLY = "SET LOCAL enable_seqscan = off"


def import_snapshot(connection: psycopg.Connection[tuple[Any, ...]], name: str) -> None:
    """Begin a transaction on `connection` that sees exactly the exported snapshot."""
    connection.execute(_BEGIN)
    connection.execute(statement(f"SET TRANSACTION SNAPSHOT {quote_literal(name)}"))


def check_condition(connection: psycopg.Connection[tuple[Any, ...]], table: TableId, name: str, condition: str) -> None:
    """Check that the server takes the condition of a table's rows, for the stored table that SQL calls `name`; reads none.

    Raises:
        NeedsUserError: When it does not; a condition that holds other statements is none.
    """
    if not condition:
        return
    errors = driver().errors
    try:
        # `binary` is for the extended protocol, which takes one statement; the simple one would run what follows a semicolon.
        connection.execute(statement(f"EXPLAIN SELECT FROM {name} WHERE ({condition})"), binary=True)
    except (errors.UndefinedTable, errors.InsufficientPrivilege):
        raise
    except (driver().ProgrammingError, driver().DataError) as refused:
        raise NeedsUserError(
            f"the table's `where` is refused: {refused.diag.message_primary}",
            code="RPL-3607",
            hint="correct `where` of the table in `tables`; it is a condition of PostgreSQL over the table's columns, with the schema of each function and other table",
            table=str(table),
        ) from None


@dataclass(frozen=True, slots=True)
class PostgresChunkReader:
    """Reads a chunk; see `ChunkReader`. Its repr does not show the password.

    Attributes:
        endpoint: Where to connect.
        schema: The columns to read.
        snapshot: Name of the exported snapshot.
        out_of_range: What happens to values the standard types cannot hold.
        parts: The stored tables by identifier.
        adbc_columns: How ADBC reads each column; None when it may not be used.
        adbc_rows: From how many rows on a chunk is read by ADBC, as far as their number is known.
        condition: Which rows are read; all when it is empty.
    """

    endpoint: Endpoint
    schema: TableSchema
    snapshot: str
    out_of_range: OutOfRange
    parts: Mapping[int, StoredTable]
    adbc_columns: tuple[str, ...] | None = None
    adbc_rows: int = _ADBC_ROWS
    condition: str = ""

    def marked(self, chunk: SnapshotChunk) -> Iterator[tuple[pa.RecordBatch, Mapping[str, Refusal]]]:
        """The same rows with refused values marked; see `MarkedChunkReader`. Always read by COPY, whose texts are what is decoded."""
        replaced: Counter[str] = Counter()
        yield from self._by_copy(self._part(chunk), chunk, replaced, marks=True)
        if replaced:
            log.warning("snapshot.values_replaced", table=str(self.schema.table), chunk=chunk.index, **replaced)

    def __call__(self, chunk: SnapshotChunk) -> Iterator[pa.RecordBatch]:
        """The rows of `chunk` in batches of `schema.arrow`."""
        part = self._part(chunk)
        replaced: Counter[str] = Counter()
        is_small = 0 <= chunk.estimated_rows < self.adbc_rows
        batches = None if self.adbc_columns is None or is_small else self._by_adbc(part, chunk, replaced)
        yield from (rows for rows, _ in self._by_copy(part, chunk, replaced)) if batches is None else batches
        if replaced:
            log.warning("snapshot.values_replaced", table=str(self.schema.table), chunk=chunk.index, **replaced)

    def _part(self, chunk: SnapshotChunk) -> StoredTable:
        oid = int(chunk.bounds["relation"])
        if oid not in self.parts:
            raise NeedsUserError(
                f"a partition of {self.schema.table} was dropped since its snapshot was planned",
                code="RPL-3602",
                table=str(self.schema.table),
                hint="take a new snapshot of this table",
            )
        return self.parts[oid]

    def _query(self, part: StoredTable, chunk: SnapshotChunk, columns: tuple[str, ...]) -> str:
        only = "ONLY " if part.only else ""
        where = chunk_condition(chunk.bounds)
        if self.condition:
            where = f"{where} AND ({self.condition})" if where else f" WHERE ({self.condition})"
        return f"SELECT {', '.join(columns)} FROM {only}{part.name}{where}"  # noqa: S608 - quoted names

    # ------------------------------------------------------------ COPY in text format

    def _by_copy(
        self, part: StoredTable, chunk: SnapshotChunk, replaced: Counter[str], *, marks: bool = False
    ) -> Iterator[tuple[pa.RecordBatch, Mapping[str, Refusal]]]:
        table, arrow, key = self.schema.table, self.schema.arrow, self.schema.primary_key
        converters = [
            Converter(table, column, self.out_of_range, replaced, marks and column.name not in key)
            for column in self.schema.columns
        ]
        query = self._query(part, chunk, tuple(map(quote_identifier, self.schema.names)))
        with contextlib.closing(self.endpoint.connect()) as connection, self._diagnosed():
            import_snapshot(connection, self.snapshot)
            if chunk.bounds["kind"] == "key":
                connection.execute(_INDEX_ONLY)
            for rows in copy_out(connection.pgconn, f"COPY ({query}) TO STDOUT"):
                texts = split_columns(rows, len(converters))
                found = [converter.convert_marked(text) for converter, text in zip(converters, texts, strict=True)]
                refused = {c.column.name: r for c, (_, r) in zip(converters, found, strict=True) if r is not None}
                yield pa.RecordBatch.from_arrays([values for values, _ in found], schema=arrow), refused
            row = connection.execute(statement(_what_was_read(part))).fetchone()
            self._check(part, *(row or (None, None)))

    def _check(self, part: StoredTable, filenode: int | None, oid: int | None) -> None:
        """Raise when not all rows were read, or those of another table.

        A snapshot holds rows, not names: a query finds the table that has the name by then. A rewrite (VACUUM FULL, TRUNCATE,
        ALTER TYPE) hides rows from older snapshots or moves their pages. The copy's lock on the table, held until here, keeps
        either from happening between copy and check.
        """
        if oid != part.oid:
            raise self._interrupted("the table does not have its name any more")
        if part.filenode and filenode != part.filenode:
            raise RetryableError(
                f"{self.schema.table} was rewritten while its snapshot was read",
                code="RPL-3603",
                table=str(self.schema.table),
                hint="nothing to do: the replicator takes a new snapshot",
            )

    @contextlib.contextmanager
    def _diagnosed(self) -> Iterator[None]:
        """A table or column that does not exist was changed after the snapshot began: a new snapshot is taken."""
        errors = driver().errors
        gone = (errors.UndefinedColumn, errors.UndefinedTable, errors.UndefinedObject, errors.InvalidParameterValue)
        interrupted = translated_errors(gone, lambda error: self._interrupted(error.diag.message_primary or ""))
        with naming_table(self.schema.table), diagnosed(f"copying {self.schema.table}"), interrupted:
            yield

    def _interrupted(self, why: str) -> RetryableError:
        return RetryableError(
            f"copying {self.schema.table}: {why}",
            code="RPL-3604",
            table=str(self.schema.table),
            hint="the table was changed, the snapshot has ended or the connection was lost; a new snapshot is taken",
        )

    # ------------------------------------------------------------ ADBC

    def _by_adbc(
        self, part: StoredTable, chunk: SnapshotChunk, replaced: Counter[str]
    ) -> Iterator[pa.RecordBatch] | None:
        """The rows by ADBC; None when it is not installed or cannot read this chunk."""
        assert self.adbc_columns is not None
        try:
            from adbc_driver_postgresql import dbapi  # type: ignore[import-untyped]
            from psycopg.conninfo import make_conninfo
        except ImportError:
            return None
        uri = make_conninfo("", **dict[str, Any](self.endpoint.parameters()))
        with contextlib.ExitStack() as stack:
            try:
                connection = stack.enter_context(contextlib.closing(dbapi.connect(uri, autocommit=True)))
                cursor = stack.enter_context(contextlib.closing(connection.cursor()))
                cursor.execute(_BEGIN)
                cursor.execute(f"SET TRANSACTION SNAPSHOT {quote_literal(self.snapshot)}")
                if chunk.bounds["kind"] == "key":
                    cursor.execute(_INDEX_ONLY)
                cursor.execute(self._query(part, chunk, self.adbc_columns))
                reader = cursor.fetch_record_batch()
            except dbapi.Error as err:
                log.info(
                    "snapshot.read_by_copy",
                    table=str(self.schema.table),
                    why=f"ADBC cannot read the chunk: {type(err).__name__}",
                )
                return None
            return self._adbc_rows(part, stack.pop_all(), cursor, reader, replaced)

    def _adbc_rows(
        self, part: StoredTable, resources: contextlib.ExitStack, cursor: Any, reader: Any, replaced: Counter[str]
    ) -> Iterator[pa.RecordBatch]:
        from adbc_driver_postgresql import dbapi

        assert self.adbc_columns is not None
        table, arrow = self.schema.table, self.schema.arrow
        converters = [
            AdbcConverter(table, column, expression.endswith("::text"), self.out_of_range, replaced)
            for column, expression in zip(self.schema.columns, self.adbc_columns, strict=True)
        ]
        # The driver's message may quote a row, so its errors are not raised as they are.
        gone = (dbapi.Error, pa.ArrowException, OSError)
        with resources:
            while True:
                try:
                    batch = next(reader, None)
                except gone as err:
                    raise self._interrupted(type(err).__name__) from None
                if batch is None:
                    break
                columns = [c.convert(values) for c, values in zip(converters, batch.columns, strict=True)]
                yield pa.RecordBatch.from_arrays(columns, schema=arrow)
            try:
                cursor.execute(_what_was_read(part))
                row = cursor.fetchone()
            except gone as err:
                raise self._interrupted(type(err).__name__) from None
            self._check(part, *(row or (None, None)))


def _what_was_read(part: StoredTable) -> str:
    """A query of the table's file, and of the identifier of the table that has its name."""
    name = quote_literal(part.name)
    return f"SELECT pg_catalog.pg_relation_filenode({part.oid}::oid)::int8, pg_catalog.to_regclass({name})::oid::int8"


def copy_out(connection: PGconn, command: str) -> Iterator[list[memoryview | bytes]]:
    """Rows of a COPY, one message each, in lists of bounded size."""
    from psycopg import errors, pq

    result = connection.exec_(command.encode())
    if result.status != pq.ExecStatus.COPY_OUT:
        raise errors.error_from_result(result)
    get = connection.get_copy_data
    rows: list[memoryview | bytes] = []
    size = 0
    while True:
        length, row = get(0)
        if length < 0:
            break
        rows.append(row)
        size += length
        if len(rows) >= _BATCH_ROWS or size >= _BATCH_BYTES:
            yield rows
            rows, size = [], 0
    while (end := connection.get_result()) is not None:
        if end.status != pq.ExecStatus.COMMAND_OK:
            raise errors.error_from_result(end)
    if rows:
        yield rows
