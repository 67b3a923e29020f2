"""Loads snapshot chunks: executors read the source and write data files; the driver commits what was made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from replicator_sdk.distributed.executors import is_local, run_here, run_on_executors
from replicator_sdk.distributed.stopping import StoppableReader
from replicator_sdk.errors import NeedsUserError, RetryableError
from replicator_sdk.failpoint import failpoint, register
from replicator_sdk.offset import Position
from replicator_sdk.row_versions.version_columns import now
from replicator_sdk.schema import TableSchema
from replicator_sdk.snapshot import ChunkReader, SnapshotChunk
from replicator_sdk.target import TableProgress
from replicator_sdk.timeline import timed
from replicator_target_iceberg.apply.history import snapshot_rows
from replicator_target_iceberg.apply.keyed import choosing_column
from replicator_target_iceberg.config import IcebergConfig
from replicator_target_iceberg.ddl.arranged import replace_columns
from replicator_target_iceberg.ddl.ddl_events import parser
from replicator_target_iceberg.files.data_file import FileWriter, NewFile
from replicator_target_iceberg.files.form import FileForm
from replicator_target_iceberg.files.storage import Storage
from replicator_target_iceberg.jvm import Jvm
from replicator_target_iceberg.log.change import Change
from replicator_target_iceberg.schema.definition import new_schema
from replicator_target_iceberg.schema.stamps import copied_rows
from replicator_target_iceberg.schema.table_form import TableForm, form_of
from replicator_target_iceberg.schema.types import Layout
from replicator_target_iceberg.table import Attempt, NewTable, TargetTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

register(
    "iceberg.snapshot.begun",
    "iceberg.snapshot.files_written",
    "iceberg.snapshot.committed",
    "iceberg.snapshot.finished",
)
register("iceberg.snapshot.whole_written", "iceberg.snapshot.whole_committed")
_FILES_LARGER: Final = 4  # than those of a batch: they stay, and an executor holds one at a time


@dataclass(frozen=True, slots=True)
class ChunkLoad:
    """Reads chunks and writes them to data files; picklable, run by an executor or by a thread of the driver."""

    root: str
    layout: Layout
    table: TableForm
    form: FileForm
    chosen_by: int | None
    read: ChunkReader
    target_bytes: int
    number: int = 0
    time: int = 0

    def __call__(self, chunk: SnapshotChunk) -> list[NewFile]:
        """The chunk's files; nothing is seen of them before they are committed."""
        storage = Storage(self.root)
        with FileWriter(storage, self.target_bytes, self.form, self.chosen_by) as writer:
            for batch in timed("chunk.read", self.read(chunk)):
                if batch.num_rows:
                    writer.add(self._encoded(batch))
            return writer.finish()

    def _encoded(self, rows: pa.RecordBatch) -> pa.Table:
        if self.table.is_history:
            return snapshot_rows(rows, self.layout)
        return copied_rows(rows, self.layout, self.table, self.number, self.time)


@dataclass(frozen=True, slots=True)
class Content:
    """What a commit of a copy consists of.

    Attributes:
        progress: How far the table is then.
        give: Gives the commit its files.
        written: The files that were written for it, deleted when it has certainly not happened.
        needless: Files that nothing needs once it has happened.
    """

    progress: TableProgress
    give: Callable[[], None]
    written: Sequence[str] = ()
    needless: Sequence[str] = ()


class TableSnapshotLoad:
    """The snapshot of one table. Called under the table's lock."""

    def __init__(
        self, table: TargetTable, config: IcebergConfig, spark: SparkSession, jvm: Jvm, is_stopping: Callable[[], bool]
    ) -> None:
        self._table, self._config, self._spark = table, config, spark
        self._parse, self._is_stopping = parser(jvm), is_stopping
        self._began = now()

    def begin(self, schema: TableSchema, snapshot_id: str, position: Position) -> frozenset[int]:
        """Make the table ready for the plan's chunks; returns the indexes of those it has."""
        attempt = self._table.begin(replacing=True)
        self._table.note_partitions(attempt)
        is_of = attempt.record is not None and attempt.record.is_of(snapshot_id) and self._fits(attempt, schema)
        if attempt.record is not None and is_of and self._goes_on(attempt, snapshot_id):
            return attempt.record.chunks
        change = self._with_columns(attempt, schema)
        content = self._begun(attempt, change, self._table.ownership.snapshot_begun(snapshot_id, position))
        self._table.commit(attempt, change, content.progress, content.give, dropped=False)
        failpoint("iceberg.snapshot.begun")
        return frozenset()

    def _goes_on(self, attempt: Attempt, snapshot_id: str) -> bool:  # noqa: ARG002 - of tables of versions
        """Whether the chunks that are in can be built on."""
        return True

    def _begun(self, attempt: Attempt, change: Change, begun: TableProgress) -> Content:
        """What says that the table has no chunk of the plan yet, and what that makes of its rows."""
        give = change.append if attempt.version is None else lambda: change.replace_all(())
        return Content(begun, self._without_copy(attempt, change, give))

    def _fits(self, attempt: Attempt, schema: TableSchema) -> bool:
        return attempt.there.fits(schema, form_of(self._config, schema))

    def _with_columns(self, attempt: Attempt, schema: TableSchema) -> Change:
        """A change that gives the table the columns of `schema`, new ones where it has others."""
        form = form_of(self._config, schema)
        wanted = NewTable(new_schema(schema, form), form.properties)
        change = self._table.change(attempt, wanted)
        if attempt.version is not None and not self._fits(attempt, schema):
            keeps = attempt.version.has_versions and form.has_versions
            replace_columns(change, wanted, form, self._parse, str(schema.table), keeps_values=keeps)
        return change

    def load(self, schema: TableSchema, snapshot_id: str, chunks: Sequence[SnapshotChunk], read: ChunkReader) -> int:
        """Load those of `chunks` that are not in yet, in one commit; returns the number of rows loaded.

        Raises:
            RetryableError: RPL-4427 when another program has changed the table's columns meanwhile.
        """
        attempt = self._table.begin()
        held = frozenset[int]() if attempt.record is None else attempt.record.chunks_of(snapshot_id)
        wanted = [chunk for chunk in chunks if chunk.index not in held]
        if not wanted:
            return 0
        progress = self._running(attempt, schema, snapshot_id)
        change = self._table.change(attempt)
        files = self._files(change, schema, wanted, read, self._number(attempt, change))
        failpoint("iceberg.snapshot.files_written")
        # What other programs have committed while the rows were read is no reason to read them again.
        attempt = self._table.begin()
        progress = self._running(attempt, schema, snapshot_id)
        change = self._same(change, self._table.change(attempt), schema, files)
        rows = sum(file.rows for file in files)
        loaded = self._table.ownership.chunks_loaded(progress, {chunk.index for chunk in wanted}, rows)
        give = self._loaded(attempt, change, files, loaded)
        self._table.commit(attempt, change, loaded, give, written=_names(files))
        failpoint("iceberg.snapshot.committed")
        return rows

    def _loaded(
        self,
        attempt: Attempt,  # noqa: ARG002 - of tables of versions
        change: Change,
        files: list[NewFile],
        loaded: TableProgress,  # noqa: ARG002 - of tables of versions
    ) -> Callable[[], None]:
        """What puts the files of some chunks in."""
        return lambda: change.append(files)

    def _number(self, attempt: Attempt, change: Change) -> int:  # noqa: ARG002 - of tables of versions
        """The sequence number of copied rows."""
        return 0

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

        Reading and writing may take hours. What other programs have committed meanwhile, such as a compaction, is replaced as well.

        Raises:
            RetryableError: RPL-4427 when one has changed the table's columns meanwhile.
        """
        first, ownership = self._table.begin(replacing=True), self._table.ownership
        self._table.note_partitions(first)
        change = self._with_columns(first, schema)
        files = self._files(change, schema, chunks, read, self._number(first, change))
        failpoint("iceberg.snapshot.whole_written")
        all_read()
        attempt = self._table.begin(replacing=True)
        if attempt.version is not None:
            change = self._same(change, self._with_columns(attempt, schema), schema, files)
        rows = sum(file.rows for file in files)
        begun = ownership.snapshot_begun(snapshot_id, position)
        loaded = ownership.chunks_loaded(begun, {c.index for c in chunks}, rows)
        content = self._replaced(attempt, change, schema, files, ownership.snapshot_finished(loaded, position))
        self._table.commit(
            replace(attempt, record=ownership.record(loaded, attempt.record)),
            change,
            content.progress,
            content.give,
            dropped=False,
            written=content.written,
        )
        failpoint("iceberg.snapshot.whole_committed")
        change.storage.delete(content.needless)
        return rows

    def _replaced(
        self,
        attempt: Attempt,
        change: Change,
        schema: TableSchema,  # noqa: ARG002 - of tables of versions
        files: list[NewFile],
        finished: TableProgress,
    ) -> Content:
        """What has the table hold the rows of `files` and no others."""
        replaces = attempt.version is not None
        give = (lambda: change.replace_all(files)) if replaces else (lambda: change.append(files))
        return Content(finished, self._without_copy(attempt, change, give), _names(files))

    def _without_copy(self, attempt: Attempt, change: Change, give: Callable[[], None]) -> Callable[[], None]:
        """`give`, after the branch with a copy of versions is dropped that the table may have."""

        def dropping() -> None:
            change.drop_copy(attempt.version)
            give()

        return dropping

    def _same(self, made: Change, now: Change, schema: TableSchema, files: list[NewFile]) -> Change:
        """`now`, when the files that were written for `made` are right for it.

        Columns are compared with their identities: one that came and went leaves the others as they were, but new ones get other identities
        than the files have.
        """
        if (now.schema["fields"], now.storage.root) == (made.schema["fields"], made.storage.root):
            return now
        made.storage.delete(_names(files))
        raise RetryableError(
            "another program has changed the table's columns while it was copied",
            code="RPL-4427",
            table=str(schema.table),
            hint="nothing to do: it is copied again by itself; keep other programs from altering the table meanwhile",
        )

    def finish(self, schema: TableSchema, snapshot_id: str, position: Position) -> None:
        """All chunks are in: from now on the table takes changes."""
        attempt = self._table.begin()
        known = attempt.progress
        if known is not None and known.snapshot_id == snapshot_id and known.snapshot_chunks is None:
            return
        progress = self._running(attempt, schema, snapshot_id)
        change = self._table.change(attempt)
        finished = self._table.ownership.snapshot_finished(progress, position)
        content = self._finished(attempt, change, schema, finished)
        self._table.commit(attempt, change, content.progress, content.give, written=content.written)
        failpoint("iceberg.snapshot.finished")

    def _finished(self, attempt: Attempt, change: Change, schema: TableSchema, finished: TableProgress) -> Content:  # noqa: ARG002 - of tables of versions
        """What says that the table is whole."""
        return Content(finished, change.append)

    def _files(
        self, change: Change, schema: TableSchema, chunks: Sequence[SnapshotChunk], read: ChunkReader, number: int
    ) -> list[NewFile]:
        """New files that hold the chunks' rows, which have that sequence number; no commit names them yet."""
        layout, form = change.layout, form_of(self._config, schema)
        chosen_by = None if form.is_history else choosing_column(layout, schema.primary_key)
        # Those of a merge-on-read table are put together with others.
        size = self._config.target_file_bytes * (1 if form.keys is not None else _FILES_LARGER)
        work = ChunkLoad(change.storage.root, layout, form, change.form, chosen_by, read, size, number, now())
        if len(chunks) == 1 and is_local(
            self._spark
        ):  # not worth a Python process of Spark's, which takes seconds to start
            return run_here(replace(work, read=StoppableReader(work.read, self._is_stopping)), chunks[0])
        made = run_on_executors(self._spark, work, chunks, self._is_stopping)
        return [file for files in made for file in files]

    def _running(self, attempt: Attempt, schema: TableSchema, snapshot_id: str) -> TableProgress:
        progress = attempt.progress
        if progress is None or progress.snapshot_id != snapshot_id or progress.snapshot_chunks is None:
            raise NeedsUserError(
                f"the table is not taking chunks of snapshot {snapshot_id}",
                code="RPL-3428",
                table=str(schema.table),
                hint="begin the snapshot again",
            )
        return progress


def _names(files: list[NewFile]) -> list[str]:
    return [file.location for file in files]
