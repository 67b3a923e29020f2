"""Makes the copy of a table that has one already in a table of its own, and replaces the rows by one transaction.

The rows are loaded into `_replicator_copy_<plan>_<table>`. One transaction empties the table, takes all rows over and adds the row of the
commit log that says so, unless a newer run wrote the table. What an operator set on the table stays, since it stays the same table. Readers
see the rows of before or those of after.
"""
# ruff: noqa: S608 - names pass through `sql.text.name`, values through `text` or are numbers

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from replicator_sdk.errors import NeedsUserError, RetryableError
from replicator_sdk.failpoint import failpoint, register
from replicator_sdk.offset import Position
from replicator_sdk.schema import TableSchema
from replicator_sdk.snapshot import ChunkReader, SnapshotChunk
from replicator_target_bigquery.api.jobs import job_name
from replicator_target_bigquery.load.parquet import load_config
from replicator_target_bigquery.load.snapshot_chunks import ChunkRows
from replicator_target_bigquery.load.snapshot_load import TableSnapshotLoad
from replicator_target_bigquery.load.uploads import ROOT, Upload
from replicator_target_bigquery.schema.fields import Field
from replicator_target_bigquery.sql.script import UNSTAGED
from replicator_target_bigquery.sql.text import name

register("bigquery.beside.loaded", "bigquery.beside.committed")
_KEPT: Final = timedelta(days=7)
"""How long the copy's own table is kept at most; it is dropped when the copy ends, or its plan is discarded."""


class CopyBeside(TableSnapshotLoad):
    """The copy of one table. Called under the table's lock."""

    def replaces_rows(self, schema: TableSchema, chunks: Sequence[SnapshotChunk]) -> bool:
        """Whether the table holds rows of this replicator which a transaction can replace.

        Raises:
            NeedsUserError: When it has other columns than the copy, so that none can, and the copy is too large to be made at once.
        """
        self._settle()
        self._table.refuse_other_kind()
        state, found = self._table.state(), self._table.found()
        if state.progress is None or state.dropped or found is None:
            return False
        if self._fits(schema) and not self._has_more(schema):
            return True
        if len(chunks) > 1:
            raise NeedsUserError(
                f"the table {self._table.ref.id} has other columns than the source's, and no transaction of BigQuery changes columns",
                code="RPL-6576",
                table=str(schema.table),
                hint="`replicator table resync NAME TABLE --in-place` creates it again; until the copy has ended, readers see a part of it",
            )
        return False

    def copy(
        self,
        schema: TableSchema,
        snapshot_id: str,
        position: Position,
        chunks: Sequence[SnapshotChunk],
        read: ChunkReader,
        all_read: Callable[[], None],
    ) -> int:
        """Load all chunks beside the table, then replace its rows by them; returns the number of rows."""
        table, session = self._table, self._table.session
        found = table.found()
        assert found is not None, "it has rows"
        folder = self._folder(snapshot_id).removeprefix(f"{ROOT}/")
        upload = Upload(session.storage, session.jobs, self._config.staging_bucket, folder, schema.table)
        try:
            self._upload(chunks, ChunkRows(session.layout, schema, found.fields, read), upload)
            if upload.rows:
                self._load_copy(schema, snapshot_id, upload, found.fields)
        finally:
            upload.remove()
        failpoint("bigquery.beside.loaded")
        all_read()
        self._replace(schema, snapshot_id, position, chunks, upload.rows, found.fields)
        failpoint("bigquery.beside.committed")
        with contextlib.suppress(RetryableError):  # it expires
            self.drop_copy(snapshot_id)
        return upload.rows

    def drop_copy(self, snapshot_id: str) -> None:
        """Drop the table in which the plan's copy was made; one that does not exist is no error."""
        self._table.session.catalogue.drop(self._table.ref.copy_id(snapshot_id), self._table.table)

    def _load_copy(self, schema: TableSchema, snapshot_id: str, upload: Upload, fields: Sequence[Field]) -> None:
        """By one job, whose name the plan alone decides: rows cannot be loaded twice."""
        session, ref = self._table.session, self._table.ref
        copy = ref.copy_id(snapshot_id)
        made = session.catalogue.definition(copy, fields)
        made.expires = datetime.now(UTC) + _KEPT
        session.catalogue.create(made, schema.table)
        self._begin()
        job = job_name(
            ref.dataset, ref.table, "beside", snapshot_id, of=f"{session.owner} {session.context.epoch} {copy}"
        )
        config = load_config(fields, encryption=self._config.encryption_key_name)
        session.jobs.load(job, upload.uris, copy, config, f"loading a copy of {ref.id}", schema.table)

    def _replace(
        self,
        schema: TableSchema,
        snapshot_id: str,
        position: Position,
        chunks: Sequence[SnapshotChunk],
        rows: int,
        fields: Sequence[Field],
    ) -> None:
        table, ref, copy = self._table, self._table.ref, self._table.ref.copy_sql(snapshot_id)
        begun = table.ownership.snapshot_begun(snapshot_id, position)
        loaded = table.ownership.chunks_loaded(begun, (chunk.index for chunk in chunks), rows)
        whole = table.row(table.ownership.snapshot_finished(loaded, position), f"whole-{snapshot_id}", note="")
        columns = ", ".join(name(field.name) for field in fields)
        statements, checks = [f"TRUNCATE TABLE {ref.sql}"], []
        if rows:
            statements.append(f"INSERT INTO {ref.sql} ({columns})\nSELECT {columns} FROM {copy}")
            checks.append((f"(SELECT COUNT(*) FROM {copy}) != {rows}", UNSTAGED))
        if not schema.primary_key and table.has_unmatched():
            statements.append(f"TRUNCATE TABLE {ref.unmatched_sql}")

        def refuse(_: str) -> Exception:
            return RetryableError(
                "the rows of a copy were changed or gone before they were taken over",
                code="RPL-6577",
                table=str(schema.table),
                hint="nothing to do: it is copied again by itself; keep other programs from writing tables whose names begin with _replicator_",
            )

        row = replace(whole, chunks=frozenset(chunk.index for chunk in chunks), place=table.here())
        table.commit(row, statements, checks=checks, refuse=refuse)
