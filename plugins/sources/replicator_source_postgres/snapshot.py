"""Snapshots: a table's rows exact at a log position, read in chunks by anybody."""

from __future__ import annotations

import contextlib
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import structlog

from replicator_sdk.config import OutOfRange
from replicator_sdk.context import DeltaSourceContext
from replicator_sdk.errors import NeedsUserError, RetryableError
from replicator_sdk.schema import TableSchema, replace_columns
from replicator_sdk.snapshot import SnapshotChunk, SnapshotReader, TableSnapshot
from replicator_source_postgres import chunks as cutting
from replicator_source_postgres.catalogue import Catalogue, TableFacts
from replicator_source_postgres.connection import (
    Endpoint,
    driver,
    quote_identifier,
    quote_literal,
    replication_command,
    statement,
)
from replicator_source_postgres.copy_text import split_columns
from replicator_source_postgres.diagnosis import diagnosed
from replicator_source_postgres.offset import PostgresOffset
from replicator_source_postgres.registry import find_readable
from replicator_source_postgres.relations import STATE_KEY, load_seen
from replicator_source_postgres.types.convert import Converter

if TYPE_CHECKING:
    import psycopg
    from psycopg.pq.abc import PGconn

log = structlog.get_logger(__name__)

_BATCH_ROWS = 65_536
_BATCH_BYTES = 16 << 20


class PostgresSnapshotReader(SnapshotReader):
    """Opens snapshots; each holds one walsender and one temporary slot until closed."""

    def __init__(self, endpoint: Endpoint, out_of_range: OutOfRange, context: DeltaSourceContext) -> None:
        self._endpoint = endpoint
        self._out_of_range = out_of_range
        self._context = context

    def open(self, schema: TableSchema, chunks: Sequence[SnapshotChunk] = ()) -> TableSnapshot:
        """A snapshot of one table; blocks no writer, and waits for transactions that are writing when it begins."""
        exported = ExportedSnapshot(self._endpoint)
        try:
            with self._endpoint.session(statement_timeout_seconds=0) as connection:
                import_snapshot(connection, exported.name)
                catalogue = Catalogue(connection, self._endpoint.config.database)
                facts = find_readable(catalogue, schema.table)
                now = self._selected(schema, facts, catalogue)
                parts = cutting.storages(catalogue, facts)
                plan = cutting.plan(catalogue, now, parts, self._endpoint.config.chunk_rows)
        except BaseException:
            exported.close()
            raise
        if chunks:
            plan = _resumed(plan, chunks, parts)
        read = CopyReader(self._endpoint, now, exported.name, self._out_of_range, {part.oid: part for part in parts})
        return PostgresTableSnapshot(exported, now, plan, read)

    def _selected(self, schema: TableSchema, facts: TableFacts, catalogue: Catalogue) -> TableSchema:
        """The schema at the snapshot's position, with the columns the pipeline asks for."""
        now = catalogue.schema(facts, schema.table)
        seen = load_seen(self._context.get_state(STATE_KEY)).get(facts.oid)
        if seen is None or not seen.is_narrowed:
            return now
        wanted = {column.source_id for column in schema.columns} | {now[name].source_id for name in now.primary_key}
        return replace_columns(now, (column for column in now.columns if column.source_id in wanted))


def _resumed(plan: cutting.Plan, chunks: Sequence[SnapshotChunk], parts: Sequence[cutting.Storage]) -> cutting.Plan:
    """The kept chunks, unless a part of the table is gone or came since: then all is read anew."""
    if {int(chunk.bounds["relation"]) for chunk in chunks} == {part.oid for part in parts}:
        return cutting.Plan(tuple(chunks), plan.resumable)
    return cutting.Plan(plan.chunks, resumable=False)


class ExportedSnapshot:
    """A temporary slot's snapshot: everything up to `position`, readable by `name` until closed."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._connection: PGconn = endpoint.replication()
        try:
            slot = quote_identifier(f"replicator_snapshot_{uuid.uuid4().hex[:16]}")
            # The long form of the command, which 13 and 14 know, goes on working in later versions.
            rows = replication_command(
                self._connection, f"CREATE_REPLICATION_SLOT {slot} TEMPORARY LOGICAL pgoutput EXPORT_SNAPSHOT"
            )
        except BaseException:
            self._connection.finish()
            raise
        self.position = PostgresOffset.parse(rows[0]["consistent_point"] or "")
        self.name = rows[0]["snapshot_name"] or ""

    def close(self) -> None:
        """End the session; the server drops snapshot and slot with it."""
        self._connection.finish()


def import_snapshot(connection: psycopg.Connection[tuple[Any, ...]], name: str) -> None:
    """Begin a transaction on `connection` that sees exactly the exported snapshot."""
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    connection.execute(statement(f"SET TRANSACTION SNAPSHOT {quote_literal(name)}"))


class PostgresTableSnapshot(TableSnapshot):
    """An open snapshot of one table."""

    def __init__(self, exported: ExportedSnapshot, schema: TableSchema, plan: cutting.Plan, read: CopyReader) -> None:
        self._exported = exported
        self.schema = schema
        self.position = exported.position
        self.chunks = plan.chunks
        self.resumable = plan.resumable
        self.read = read

    def close(self) -> None:
        """Let the server forget the snapshot."""
        self._exported.close()


@dataclass(frozen=True, slots=True)
class CopyReader:
    """Reads a chunk by COPY; see `ChunkReader`. Holds the password in a form that does not print.

    Attributes:
        endpoint: Where to connect.
        schema: The columns to read.
        snapshot: Name of the exported snapshot.
        out_of_range: What becomes of values the standard types cannot hold.
        parts: The stored tables by identifier.
    """

    endpoint: Endpoint
    schema: TableSchema
    snapshot: str
    out_of_range: OutOfRange
    parts: Mapping[int, cutting.Storage]

    def __call__(self, chunk: SnapshotChunk) -> Iterator[pa.RecordBatch]:
        """The rows of `chunk` in batches of `schema.arrow`."""
        part = self._part(chunk)
        replaced: Counter[str] = Counter()
        table = self.schema.table
        converters = [Converter(table, column, self.out_of_range, replaced) for column in self.schema.columns]
        arrow = self.schema.arrow
        with contextlib.closing(self.endpoint.connect()) as connection:
            for rows in self._copy(connection, part, chunk):
                texts = split_columns(rows, len(converters))
                columns = [converter.convert(text) for converter, text in zip(converters, texts, strict=True)]
                yield pa.RecordBatch.from_arrays(columns, schema=arrow)
            self._check_not_rewritten(connection, part)
        if replaced:
            log.warning("values out of range replaced", table=str(table), chunk=chunk.index, **replaced)

    def _part(self, chunk: SnapshotChunk) -> cutting.Storage:
        oid = int(chunk.bounds["relation"])
        if oid not in self.parts:
            raise NeedsUserError(
                f"a part of {self.schema.table} is gone since its snapshot was planned",
                code="RPL-3502",
                table=str(self.schema.table),
                hint="take the snapshot of this table anew",
            )
        return self.parts[oid]

    def _copy(
        self, connection: psycopg.Connection[tuple[Any, ...]], part: cutting.Storage, chunk: SnapshotChunk
    ) -> Iterator[list[memoryview | bytes]]:
        """The rows' text, in lists of bounded size."""
        names = ", ".join(quote_identifier(name) for name in self.schema.names)
        only = "ONLY " if part.only else ""
        query = f"SELECT {names} FROM {only}{part.name}{cutting.condition(chunk.bounds)}"  # noqa: S608 - quoted names
        with self._diagnosed():
            import_snapshot(connection, self.snapshot)
            if chunk.bounds["kind"] == "key":
                connection.execute("SET LOCAL enable_seqscan = off")
            yield from _copy_out(connection.pgconn, f"COPY ({query}) TO STDOUT")

    def _check_not_rewritten(self, connection: psycopg.Connection[tuple[Any, ...]], part: cutting.Storage) -> None:
        """A rewrite (VACUUM FULL, TRUNCATE, ALTER TYPE) hides rows from older snapshots or moves their pages.

        The copy's lock on the table, held until here, keeps it from happening between copy and check.
        """
        with self._diagnosed():
            row = connection.execute("SELECT pg_catalog.pg_relation_filenode(%s::oid)", [part.oid]).fetchone()
            if part.filenode and (row is None or row[0] != part.filenode):
                raise RetryableError(
                    f"{self.schema.table} was rewritten while its snapshot was read",
                    code="RPL-3503",
                    table=str(self.schema.table),
                    hint="the snapshot is taken anew",
                )

    @contextlib.contextmanager
    def _diagnosed(self) -> Iterator[None]:
        """A table or column that is gone was changed after the snapshot began: that mends itself by a new one."""
        errors = driver().errors
        try:
            with diagnosed(f"copying {self.schema.table}"):
                try:
                    yield
                except (errors.UndefinedColumn, errors.UndefinedTable, errors.InvalidParameterValue) as err:
                    raise RetryableError(
                        f"copying {self.schema.table}: {err.diag.message_primary}",
                        code="RPL-3504",
                        table=str(self.schema.table),
                        hint="the table or the snapshot is no longer what it was; the snapshot is taken anew",
                    ) from None
        except NeedsUserError as err:
            err.table = err.table or str(self.schema.table)
            raise


def _copy_out(connection: PGconn, command: str) -> Iterator[list[memoryview | bytes]]:
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
