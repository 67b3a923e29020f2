"""Snapshots: a table's rows at exactly one log position, read in chunks by any process."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING

from replicator_sdk.config import OutOfRange
from replicator_sdk.context import DeltaSourceContext
from replicator_sdk.errors import RetryableError
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.snapshot import SnapshotChunk, SnapshotReader, TableSnapshot
from replicator_source_postgres.catalogue import Catalogue, TableFacts
from replicator_source_postgres.connection import Endpoint, quote_identifier, replication_command
from replicator_source_postgres.offset import PostgresOffset
from replicator_source_postgres.relation_ids import RelationIds
from replicator_source_postgres.replication.slot_creation import waiting_for_transactions
from replicator_source_postgres.schema.schema_tracker import narrow
from replicator_source_postgres.snapshots import chunk_plan
from replicator_source_postgres.snapshots.chunk_reader import PostgresChunkReader, check_condition, import_snapshot
from replicator_source_postgres.table_registry import check_readable
from replicator_source_postgres.types.adbc import adbc_expression
from replicator_source_postgres.unlogged.unlogged_changes import UnloggedChanges

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn

    from replicator_sdk.source import EventReaderDefinition


class PostgresSnapshotReader(SnapshotReader):
    """Opens snapshots; each holds one walsender and one temporary slot until closed."""

    def __init__(
        self,
        endpoint: Endpoint,
        publication: str,
        out_of_range: OutOfRange,
        definition: EventReaderDefinition,
        context: DeltaSourceContext,
    ) -> None:
        self._endpoint = endpoint
        self._publication = publication
        self._context = context
        self._out_of_range = out_of_range
        self._narrowed = definition.narrowed
        self._conditions = definition.conditions

    def open(self, schema: TableSchema, chunks: Sequence[SnapshotChunk] = ()) -> TableSnapshot:
        """A snapshot of one table; blocks no writer, and waits for transactions that are writing when it begins.

        Raises:
            RetryableError: When the table does not exist any more.
        """
        exported = ExportedSnapshot(self._endpoint, self._context)
        try:
            with self._endpoint.session(statement_timeout_seconds=0) as connection:
                import_snapshot(connection, exported.name)
                catalogue = Catalogue(connection, self._endpoint.config.database)
                facts = _find(catalogue, schema.table)
                now = self._selected(schema, facts, catalogue)
                parts = chunk_plan.stored_tables(catalogue, facts)
                plan = chunk_plan.plan_chunks(catalogue, now, parts, self._endpoint.config.chunk_rows)
                expressions = adbc_columns(catalogue, now, facts)
                condition = self._conditions.get(schema.table, "")
                for part in parts[:1]:
                    check_condition(connection, schema.table, part.name, condition)
                unlogged = UnloggedChanges(catalogue, self._publication, self._context)
                if unlogged.is_left_out(facts.oid):
                    raise _another(schema.table)  # it took the name after the tables were published
                resumes = unlogged.begin_copy(facts.oid, schema.table, resumes=bool(chunks))
                RelationIds.change(self._context, lambda ids: ids.copied(facts.oid, schema.table))
        except BaseException:
            exported.close()
            raise
        read = PostgresChunkReader(
            self._endpoint,
            now,
            exported.name,
            self._out_of_range,
            {part.oid: part for part in parts},
            expressions,
            condition=condition,
        )
        partial = _partial_updates(facts, parts)
        if chunks:
            plan = _resumed(plan, chunks, parts, resumes=resumes)
        return PostgresTableSnapshot(exported, now, plan, read, partial)

    def _selected(self, schema: TableSchema, facts: TableFacts, catalogue: Catalogue) -> TableSchema:
        """The schema at the snapshot's position, with the columns that the pipeline captures."""
        now = catalogue.schema(facts, schema.table)
        return narrow(now, schema) if schema.table in self._narrowed else now


def _find(catalogue: Catalogue, table: TableId) -> TableFacts:
    facts = catalogue.find(table)
    if facts is None:
        raise _another(table)
    check_readable(catalogue, facts, table)
    return facts


def _partial_updates(facts: TableFacts, parts: Sequence[chunk_plan.StoredTable]) -> str:
    """Whether values may be stored out of line: an update that leaves one as it was does not have it in the log."""
    if facts.identity == "f" or not any(part.has_toast for part in parts):
        return ""
    name = f"{quote_identifier(facts.schema)}.{quote_identifier(facts.name)}"
    return (
        "its log has no large values that an update left as they were (unchanged TOAST):"
        f" ALTER TABLE {name} REPLICA IDENTITY FULL (of each partition, if it has any)"
    )


def _another(table: TableId) -> RetryableError:
    return RetryableError(
        "the table was dropped or renamed just before it was to be copied",
        code="RPL-3605",
        table=str(table),
        hint="nothing to do: the attempt is repeated with the tables that exist then",
    )


def _resumed(
    plan: chunk_plan.ChunkPlan,
    chunks: Sequence[SnapshotChunk],
    parts: Sequence[chunk_plan.StoredTable],
    *,
    resumes: bool,
) -> chunk_plan.ChunkPlan:
    """The saved chunks, unless a partition was dropped or added, or rows changed without the log: then all chunks are new."""
    if resumes and {int(chunk.bounds["relation"]) for chunk in chunks} == {part.oid for part in parts}:
        return chunk_plan.ChunkPlan(tuple(chunks), plan.resumable)
    return chunk_plan.ChunkPlan(plan.chunks, resumable=False)


class ExportedSnapshot:
    """A temporary slot's snapshot: everything up to `position`, readable by `name` until closed."""

    def __init__(self, endpoint: Endpoint, context: DeltaSourceContext) -> None:
        self._connection: PGconn = endpoint.replication()
        try:
            slot = quote_identifier(f"replicator_snapshot_{uuid.uuid4().hex[:16]}")
            # The long form of the command, which 13 and 14 know, works in later versions, too.
            command = f"CREATE_REPLICATION_SLOT {slot} TEMPORARY LOGICAL pgoutput EXPORT_SNAPSHOT"
            with waiting_for_transactions(self._connection, endpoint, context):
                rows = replication_command(self._connection, command)
        except BaseException:
            self._connection.finish()
            raise
        self.position = PostgresOffset.parse(rows[0]["consistent_point"] or "")
        self.name = rows[0]["snapshot_name"] or ""

    def close(self) -> None:
        """End the session; the server drops snapshot and slot with it."""
        self._connection.finish()


def adbc_columns(catalogue: Catalogue, schema: TableSchema, facts: TableFacts) -> tuple[str, ...] | None:
    """How ADBC may read each column; None when the table must be read by COPY in text format."""
    casts = catalogue.casts_to_text()
    types = {column.name: (column.type_oid, column.typmod) for column in facts.columns}
    found = [adbc_expression(quote_identifier(name), *types[name], catalogue.type_of, casts) for name in schema.names]
    whole = tuple(expression for expression in found if expression is not None)
    return whole if len(whole) == len(found) else None


class PostgresTableSnapshot(TableSnapshot):
    """An open snapshot of one table."""

    def __init__(
        self,
        exported: ExportedSnapshot,
        schema: TableSchema,
        plan: chunk_plan.ChunkPlan,
        read: PostgresChunkReader,
        partial_updates: str = "",
    ) -> None:
        self._exported = exported
        self.schema = schema
        self.position = exported.position
        self.chunks = plan.chunks
        self.resumable = plan.resumable
        self.read = read
        self.read_marked = read.marked
        self.partial_updates = partial_updates

    def close(self) -> None:
        """End the session that exports the snapshot."""
        self._exported.close()
