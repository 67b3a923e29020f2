"""Loads snapshot chunks straight into the target table by load jobs; no staging, no MERGE (docs/seeds.md#001-replicator).

A load job is outside every transaction. So a load is announced in the commit log before it is requested, and a run that
begins or resumes the snapshot first settles what was announced: a load that ran counts, one that did not can never run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

from replicator_sdk.distributed.executors import run_on_executors
from replicator_sdk.distributed.stopping import StoppableReader
from replicator_sdk.errors import BugError
from replicator_sdk.failpoint import failpoint, register
from replicator_sdk.offset import Position
from replicator_sdk.schema import TableSchema
from replicator_sdk.snapshot import ChunkReader, SnapshotChunk
from replicator_sdk.target import TableProgress
from replicator_target_bigquery.api.first_answer import Service
from replicator_target_bigquery.api.jobs import job_name
from replicator_target_bigquery.commit_log.commit import LOADING
from replicator_target_bigquery.load.parquet import load_config
from replicator_target_bigquery.load.snapshot_chunks import ChunkRows, ChunkUpload, tasks_of
from replicator_target_bigquery.load.uploads import FILE_BYTES, ROOT, Upload, delete_folder, try_to_delete
from replicator_target_bigquery.schema.fields import Field
from replicator_target_bigquery.schema.schema_check import schema_mismatch
from replicator_target_bigquery.tables.target_table import TargetTable

register(
    "bigquery.snapshot.begun",
    "bigquery.snapshot.uploaded",
    "bigquery.snapshot.announced",
    "bigquery.snapshot.loaded",
    "bigquery.snapshot.finished",
)


class TableSnapshotLoad:
    """The snapshot of one table. Called under the table's lock.

    Args:
        table: The table.
        begin: Called before each load; waits until the table may be loaded again.
    """

    replaces: ClassVar[bool] = False
    """Whether a table of this replicator is replaced instead of truncated."""

    def __init__(self, table: TargetTable, begin: Callable[[], None]) -> None:
        self._table = table
        self._begin = begin
        self._config = table.session.config

    def begin(self, schema: TableSchema, snapshot_id: str, position: Position) -> frozenset[int]:
        """Prepare the table for the plan's chunks; returns the indexes of those it has."""
        self._settle()
        fits = self._fits(schema)
        if self._is_of(snapshot_id) and fits and not self._table.is_replaced():
            try_to_delete(self._table.session.storage, self._config.staging_bucket, self._folder(snapshot_id))
            record = self._table.state().record
            return record.chunks if record else frozenset()
        table = self._table
        table.refuse_other_kind()
        replaced = not fits or self._has_more(schema) or (self.replaces and table.state().last is not None)
        empty = table.state().last is None or replaced
        found = table.found()
        former = found.fields if found is not None else ()
        if replaced and found is not None:
            table.session.catalogue.drop(table.ref.id, schema.table)
            table.session.catalogue.drop(table.ref.staging_id, schema.table)
            table.changed()
        table.ensure_created(schema, replacing=True, like=former)
        if not schema.primary_key:
            table.drop_unmatched()
        begun = table.ownership.snapshot_begun(snapshot_id, position)
        statements = [] if empty else [f"TRUNCATE TABLE {table.ref.sql}"]
        row = table.row(begun, f"begin-{snapshot_id}", note="")
        table.commit(replace(row, place=table.here()), statements)
        failpoint("bigquery.snapshot.begun")
        return frozenset()

    def load(self, schema: TableSchema, snapshot_id: str, chunks: Sequence[SnapshotChunk], read: ChunkReader) -> int:
        """Load the `chunks` that the table lacks by one job; returns the number of rows loaded."""
        progress = self._running(schema, snapshot_id)
        held = progress.snapshot_chunks or frozenset()
        wanted = [c for c in chunks if c.index not in held]
        if not wanted or progress.snapshot_chunks is None:
            return 0
        table = self._table
        fields = table.ensure_created(schema).fields
        session = table.session
        folder = self._folder(snapshot_id).removeprefix(f"{ROOT}/")
        upload = Upload(session.storage, session.jobs, self._config.staging_bucket, folder, schema.table)
        try:
            self._upload(wanted, ChunkRows(session.layout, schema, fields, read), upload)
            loaded = table.ownership.chunks_loaded(progress, {c.index for c in wanted}, upload.rows)
            if upload.rows:
                self._load(schema, loaded, upload, fields)
        finally:
            upload.remove()
        table.commit(table.row(loaded, f"chunks-{snapshot_id}"))
        return upload.rows

    def finish(self, schema: TableSchema, snapshot_id: str, position: Position) -> None:
        """Commit that all chunks are loaded: the table takes changes from now on."""
        progress = self._running(schema, snapshot_id)
        if progress.snapshot_chunks is None:
            return
        done = self._table.ownership.snapshot_finished(progress, position)
        self._table.commit(self._table.row(done, f"finish-{snapshot_id}"))
        failpoint("bigquery.snapshot.finished")

    def _upload(self, chunks: Sequence[SnapshotChunk], rows: ChunkRows, upload: Upload) -> None:
        """Write one chunk in this process, several on executors: a small table starts no Spark."""
        context = self._table.session.context
        if len(chunks) == 1:
            read = StoppableReader(rows.read, lambda: context.is_stopping)
            upload.write(replace(rows, read=read)(chunks))
        else:
            spark = context.spark()
            work = ChunkUpload(rows, upload.folder, FILE_BYTES)
            for files in run_on_executors(spark, work, tasks_of(chunks), lambda: context.is_stopping):
                upload.add(files)
        failpoint("bigquery.snapshot.uploaded")

    def _load(self, schema: TableSchema, loaded: TableProgress, upload: Upload, fields: Sequence[Field]) -> None:
        """Announce the load, then run it."""
        table, session, ref = self._table, self._table.session, self._table.ref
        self._begin()
        revision = table.state().revision
        facts = f"{session.owner} {session.context.epoch} {ref.id} {loaded.snapshot_id} {revision}"
        name = job_name(ref.dataset, ref.table, "snapshot", loaded.snapshot_id, str(revision), of=facts)
        table.commit(table.row(loaded, f"load-{loaded.snapshot_id}", kind=LOADING, note=name))
        failpoint("bigquery.snapshot.announced")
        config = load_config(fields, encryption=self._config.encryption_key_name)
        session.jobs.load(name, upload.uris, ref.id, config, f"loading a snapshot of {ref.id}", schema.table)
        failpoint("bigquery.snapshot.loaded")

    def discard_files(self, snapshot_id: str) -> None:
        """Delete what runs that were killed left of this plan in the staging bucket; the loads that read it are settled."""
        session, bucket = self._table.session, self._config.staging_bucket
        session.jobs.request(
            "deleting what is left of a snapshot",
            self._table.table,
            lambda: delete_folder(session.storage, bucket, self._folder(snapshot_id)),
            place=f"gs://{bucket}",
            service=Service.STORAGE,
        )

    def _folder(self, snapshot_id: str) -> str:
        ref = self._table.ref
        return f"{ROOT}/{self._table.session.owner}/{ref.dataset}/{ref.table}/snapshot-{snapshot_id}"

    def _settle(self) -> None:
        """Find out how announced loads ended; one that never started cannot start any more."""
        table = self._table
        for announced in table.state().pending:
            job = table.session.jobs.use_up(announced.note, f"settling a load of {table.ref.id}", table.table)
            if job is not None and announced.progress is not None:
                loaded = table.ownership.taken_over(announced.progress)
                table.commit(table.row(loaded, f"chunks-{loaded.snapshot_id}"))

    def _is_of(self, snapshot_id: str) -> bool:
        record = self._table.state().record
        return record is not None and record.is_of(snapshot_id) and not record.dropped

    def _fits(self, schema: TableSchema) -> bool:
        found, layout = self._table.found(), self._table.session.layout
        return found is not None and not schema_mismatch(layout.target_fields(schema, found.fields), found)

    def _has_more(self, schema: TableSchema) -> bool:
        """Whether the table has columns beyond those of a new copy, which may hold values the source has dropped."""
        found, wanted = self._table.found(), {f.name.lower() for f in self._table.session.layout.target_fields(schema)}
        return found is not None and any(f.name.lower() not in wanted for f in found.fields)

    def _running(self, schema: TableSchema, snapshot_id: str) -> TableProgress:
        progress = self._table.state().progress
        if progress is None or not self._is_of(snapshot_id):
            raise BugError(
                "chunks of a snapshot that was not begun",
                code="RPL-6540",
                table=str(schema.table),
                hint="another run has begun another snapshot of the table",
            )
        return progress
