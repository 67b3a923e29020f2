"""Loads snapshot chunks: executors read the source and write data files; the driver commits what was made."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from replicator_sdk.distributed.executors import is_local, run_here, run_on_executors
from replicator_sdk.distributed.stopping import StoppableReader, never
from replicator_sdk.errors import NeedsUserError, RetryableError
from replicator_sdk.failpoint import failpoint, register
from replicator_sdk.offset import Position
from replicator_sdk.row_versions.version_columns import now
from replicator_sdk.schema import TableSchema
from replicator_sdk.snapshot import ChunkReader, SnapshotChunk
from replicator_sdk.target import TableProgress
from replicator_sdk.timeline import step, timed
from replicator_target_delta.apply.row_removal import FileChanges
from replicator_target_delta.config import DeltaConfig
from replicator_target_delta.files.data_file import write_data_file
from replicator_target_delta.files.live_files import DataFile
from replicator_target_delta.files.storage import Storage
from replicator_target_delta.schema.encoding import encode_rows
from replicator_target_delta.schema.metadata_columns import Stamper
from replicator_target_delta.schema.table_definition import TableDefinition
from replicator_target_delta.schema.table_form import TableForm, form_of
from replicator_target_delta.schema.types import Layout
from replicator_target_delta.table import Attempt, TargetTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

register("delta.snapshot.begun", "delta.snapshot.files_written", "delta.snapshot.committed", "delta.snapshot.finished")
register("delta.snapshot.whole_written", "delta.snapshot.whole_committed")

_FILES_LARGER: Final = 4  # than those of a batch: they stay, and an executor holds one at a time


@dataclass(frozen=True, slots=True)
class ChunkLoad:
    """Reads chunks and writes them to data files; picklable, run by an executor or by a thread of the driver.

    Attributes:
        root: The table's folder.
        layout: Its columns.
        form: What it has beside the source's columns.
        snapshot_id: Of the plan.
        read: Reads a chunk.
        target_bytes: How large files are.
        number: The sequence number of the rows.
        time: From when they are valid as versions; microseconds since 1970 UTC.
    """

    root: str
    layout: Layout
    form: TableForm
    snapshot_id: str
    read: ChunkReader
    target_bytes: int
    number: int = 0
    time: int = 0

    def __call__(self, chunk: SnapshotChunk) -> list[dict[str, Any]]:
        """The contents of the `add` actions of the chunk's files; nothing is seen of them before they are committed."""
        storage = Storage(self.root)
        stamper = Stamper(self.form.names, f"snapshot-{self.snapshot_id}")
        made: list[dict[str, Any]] = []
        buffer: list[pa.Table] = []
        size = 0
        for batch in timed("chunk.read", self.read(chunk)):
            with step("chunk.encode"):
                stamps = stamper.snapshot(batch.num_rows, self.number, self.time)
                buffer.append(encode_rows(batch, self.layout, stamps))
            size += buffer[-1].nbytes
            if size >= self.target_bytes:
                made.append(self._write(storage, buffer))
                buffer, size = [], 0
        if size or any(part.num_rows for part in buffer):
            made.append(self._write(storage, buffer))
        return made

    def _write(self, storage: Storage, buffer: list[pa.Table]) -> dict[str, Any]:
        with step("chunk.write"):
            return write_data_file(storage, pa.concat_tables(buffer), self.snapshot_id)


class TableSnapshotLoad:
    """The snapshot of one table. Called under the table's lock.

    Args:
        table: The table.
        config: The target's settings.
        spark: The session.
        is_stopping: Whether the copy is to end; what it reads then is read again by another.
    """

    def __init__(
        self, table: TargetTable, config: DeltaConfig, spark: SparkSession, is_stopping: Callable[[], bool] = never
    ) -> None:
        self._table = table
        self._began = now()
        self._is_stopping = is_stopping
        self._config = config
        self._spark = spark

    def begin(self, schema: TableSchema, snapshot_id: str, position: Position) -> frozenset[int]:
        """Make the table ready for the plan's chunks; returns the indexes of those it has."""
        attempt = self._table.begin()
        if self._is_of(attempt, snapshot_id) and self._fits(attempt, schema):
            return self._table.loaded_chunks(attempt)
        self._commit_begun(attempt, schema, self._table.ownership.snapshot_begun(snapshot_id, position))
        failpoint("delta.snapshot.begun")
        return frozenset()

    def _commit_begun(self, attempt: Attempt, schema: TableSchema, begun: TableProgress) -> None:
        """Commit that the table has no chunk of the plan yet, and what that makes of its rows."""
        self._table.commit(
            attempt,
            begun,
            remove=list(attempt.state.files.all_actions()),
            metadata=self._changed_metadata(attempt, schema),
            dropped=False,
            unmatched="",
        )

    def _changed_metadata(self, attempt: Attempt, schema: TableSchema) -> dict[str, Any] | None:
        """The table's metadata for the columns of `schema`; None when it has them."""
        form = form_of(self._config, schema)
        if attempt.progress is None:
            return TableDefinition.create(schema, form).to_metadata()
        before = TableDefinition(attempt.state.metadata)
        after = before if before.matches(schema, form) else self._successor(before, schema, form)
        return None if after.to_metadata() == before.to_metadata() else after.to_metadata()

    def _successor(self, before: TableDefinition, schema: TableSchema, form: TableForm) -> TableDefinition:
        """The definition of a table that is copied with other columns."""
        return before.replaced(schema, form)

    def load(self, schema: TableSchema, snapshot_id: str, chunks: Sequence[SnapshotChunk], read: ChunkReader) -> int:
        """Load those of `chunks` that are not in yet, in one commit; returns the number of rows loaded."""
        attempt = self._table.begin()
        held = self._table.loaded_chunks(attempt) if self._is_of(attempt, snapshot_id) else frozenset()
        wanted = [c for c in chunks if c.index not in held]
        if not wanted:
            return 0
        progress = self._running(attempt, schema, snapshot_id)
        files = self._files(attempt, attempt.state.layout, schema, snapshot_id, wanted, read)
        failpoint("delta.snapshot.files_written")
        rows = sum(f.rows for f in files)
        loaded = self._table.ownership.chunks_loaded(progress, {c.index for c in wanted}, rows)
        self._commit_loaded(attempt, loaded, files)
        failpoint("delta.snapshot.committed")
        return rows

    def _commit_loaded(self, attempt: Attempt, loaded: TableProgress, files: list[DataFile]) -> None:
        """Commit the files of some chunks."""
        self._table.commit(attempt, loaded, add=files)

    def load_whole(
        self,
        schema: TableSchema,
        snapshot_id: str,
        position: Position,
        chunks: Sequence[SnapshotChunk],
        read: ChunkReader,
        all_read: Callable[[], None],
    ) -> int:
        """Replace what the table has by all of `chunks` in one commit; until then no reader sees any of it.

        Reading and writing may take hours. What other programs have committed meanwhile, such as an OPTIMIZE, is replaced as well.

        Raises:
            RetryableError: RPL-4412 when one has changed the table's columns or properties meanwhile.
        """
        first, ownership = self._table.begin(), self._table.ownership
        metadata = self._changed_metadata(first, schema)
        layout = first.state.layout if metadata is None else Layout.of(json.loads(metadata["schemaString"]))
        files = self._files(first, layout, schema, snapshot_id, chunks, read)
        failpoint("delta.snapshot.whole_written")
        all_read()
        attempt = self._table.begin()
        if attempt.state.metadata != first.state.metadata:
            raise RetryableError(
                "another program has changed the table's columns or properties while it was copied",
                code="RPL-4412",
                table=str(schema.table),
                hint="nothing to do: it is copied again by itself; keep other programs from altering the table meanwhile",
            )
        rows = sum(f.rows for f in files)
        begun = ownership.snapshot_begun(snapshot_id, position)
        loaded = ownership.chunks_loaded(begun, {c.index for c in chunks}, rows)
        changes = self._replaced(attempt, layout, schema, files)
        self._table.commit(
            replace(attempt, record=ownership.record(loaded, attempt.record)),
            self._numbered(ownership.snapshot_finished(loaded, position), attempt),
            add=changes.add,
            remove=changes.remove,
            metadata=metadata,
            dropped=False,
            unmatched="",
        )
        failpoint("delta.snapshot.whole_committed")
        return rows

    def _replaced(
        self,
        attempt: Attempt,
        layout: Layout,  # noqa: ARG002 - of tables of versions
        schema: TableSchema,  # noqa: ARG002 - of tables of versions
        files: list[DataFile],
    ) -> FileChanges:
        """What a copy that is made beside the table does to its files."""
        return FileChanges(add=files, remove=list(attempt.state.files.all_actions()))

    def _number(self, attempt: Attempt) -> int:  # noqa: ARG002 - for tables of versions
        """The sequence number of copied rows."""
        return 0

    def _numbered(self, progress: TableProgress, before: Attempt) -> TableProgress:
        """The progress, which says that the table has rows of that number."""
        return replace(progress, last_sequence=max(progress.last_sequence, self._number(before)))

    def finish(self, schema: TableSchema, snapshot_id: str, position: Position) -> None:
        """All chunks are in: from now on the table takes changes."""
        attempt = self._table.begin()
        progress = attempt.progress
        if progress is not None and self._is_of(attempt, snapshot_id) and progress.snapshot_chunks is None:
            return
        progress = self._running(attempt, schema, snapshot_id)
        self._commit_finished(attempt, schema, self._table.ownership.snapshot_finished(progress, position))
        failpoint("delta.snapshot.finished")

    def _commit_finished(self, attempt: Attempt, schema: TableSchema, finished: TableProgress) -> None:  # noqa: ARG002 - for tables of versions
        """Commit that the table is whole."""
        self._table.commit(attempt, finished)

    def _files(
        self,
        attempt: Attempt,
        layout: Layout,
        schema: TableSchema,
        snapshot_id: str,
        chunks: Sequence[SnapshotChunk],
        read: ChunkReader,
    ) -> list[DataFile]:
        """New files that hold the chunks' rows; no commit names them yet."""
        work = ChunkLoad(
            self._table.log.storage.root,
            layout,
            form_of(self._config, schema),
            snapshot_id,
            read,
            _FILES_LARGER * attempt.state.written_bytes(self._config.target_file_bytes),
            self._number(attempt),
            now(),
        )
        return [DataFile(add) for adds in self._write(work, chunks) for add in adds]

    def _write(self, work: ChunkLoad, chunks: Sequence[SnapshotChunk]) -> list[list[dict[str, Any]]]:
        """Executors take several chunks; a small table is not worth a Python process of Spark's, which takes seconds to start."""
        if not chunks:
            return []
        if len(chunks) == 1 and is_local(self._spark):
            return [run_here(replace(work, read=StoppableReader(work.read, self._is_stopping)), chunks[0])]
        return run_on_executors(self._spark, work, chunks, self._is_stopping)

    def _running(self, attempt: Attempt, schema: TableSchema, snapshot_id: str) -> TableProgress:
        progress = attempt.progress
        if progress is None or progress.snapshot_id != snapshot_id or progress.snapshot_chunks is None:
            raise NeedsUserError(
                f"the table is not taking chunks of snapshot {snapshot_id}",
                code="RPL-3405",
                table=str(schema.table),
                hint="begin the snapshot again",
            )
        return progress

    def _is_of(self, attempt: Attempt, snapshot_id: str) -> bool:
        return attempt.record is not None and attempt.record.is_of(snapshot_id)

    def _fits(self, attempt: Attempt, schema: TableSchema) -> bool:
        return TableDefinition(attempt.state.metadata).matches(schema, form_of(self._config, schema))
