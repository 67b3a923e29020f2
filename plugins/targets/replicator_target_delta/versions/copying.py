"""Copies a table again that has versions: what is gone is ended, what differs is ended and opened, what is equal stays as it is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from replicator_sdk.row_versions import FIRST_COPY
from replicator_sdk.row_versions.difference import Ending
from replicator_sdk.row_versions.version_columns import now
from replicator_sdk.schema import TableSchema
from replicator_sdk.target import TableProgress
from replicator_target_delta.apply.key_lookup import Place
from replicator_target_delta.apply.row_matching import live_rows
from replicator_target_delta.apply.row_removal import FileChanges
from replicator_target_delta.files.live_files import DataFile
from replicator_target_delta.schema.table_definition import TableDefinition
from replicator_target_delta.schema.table_form import TableForm
from replicator_target_delta.schema.types import Layout
from replicator_target_delta.snapshot import TableSnapshotLoad
from replicator_target_delta.versions.difference import Work, differing
from replicator_target_delta.versions.version_columns import Aside, end_column, version_columns

if TYPE_CHECKING:
    from replicator_target_delta.table import Attempt


class VersionsSnapshotLoad(TableSnapshotLoad):
    """The snapshot of one table of versions. Called under the table's lock.

    Chunks of a first copy are current versions at once. Those of a later one are files that no version of the table has: the table stores
    their actions beside its progress (`State.unmatched`), and one commit at the end compares them with the current versions.
    """

    def _commit_begun(self, attempt: Attempt, schema: TableSchema, begun: TableProgress) -> None:
        before = attempt.progress
        last = 0 if before is None else before.last_sequence
        starts_over = not _has_versions(attempt)
        self._table.commit(
            attempt,
            replace(begun, last_sequence=last),
            remove=list(attempt.state.files.all_actions()) if starts_over else [],
            metadata=self._changed_metadata(attempt, schema),
            dropped=False,
            unmatched="" if starts_over else Aside(now()).stored(),
        )

    def _successor(self, before: TableDefinition, schema: TableSchema, form: TableForm) -> TableDefinition:
        """Versions of before keep the columns that keep name and type; a table of another mode begins again."""
        return before.evolved(schema, form) if before.has_versions else before.replaced(schema, form)

    def _commit_loaded(self, attempt: Attempt, loaded: TableProgress, files: list[DataFile]) -> None:
        before = Aside.of(attempt.state)
        if before is None:
            super()._commit_loaded(attempt, loaded, files)
            return
        aside = replace(before, files=(*before.files, *(file.add for file in files)))
        self._table.commit(attempt, loaded, unmatched=aside.stored())

    def _commit_finished(self, attempt: Attempt, schema: TableSchema, finished: TableProgress) -> None:
        finished = self._numbered(finished, attempt)
        aside = Aside.of(attempt.state)
        if aside is None:
            super()._commit_finished(attempt, schema, finished)
            return
        files = [DataFile(add) for add in aside.files]
        changes = self._compared(attempt, attempt.state.layout, schema, files, aside.began)
        self._table.commit(attempt, finished, add=changes.add, remove=changes.remove, unmatched="")

    def _replaced(self, attempt: Attempt, layout: Layout, schema: TableSchema, files: list[DataFile]) -> FileChanges:
        if not _has_versions(attempt):
            return super()._replaced(attempt, layout, schema, files)
        return self._compared(attempt, layout, schema, files, self._began)

    def _number(self, attempt: Attempt) -> int:
        """Above all in the table; `FIRST_COPY` where it has no versions."""
        last = 0 if attempt.progress is None else attempt.progress.last_sequence
        return last + 1 if _has_versions(attempt) else FIRST_COPY

    def _compared(
        self, attempt: Attempt, layout: Layout, schema: TableSchema, files: list[DataFile], began: int
    ) -> FileChanges:
        """What a copy in `files` that began then changes of the table's versions."""
        ending = Ending(self._number(attempt), began)
        size = attempt.state.written_bytes(self._config.target_file_bytes)
        storage = self._table.log.storage
        place = Place(self._spark, attempt.state, storage, size, soft_deletes=False)
        columns = version_columns(layout, self._config.metadata_names())

        def fill(work: Work) -> None:
            for file in files:
                work.take(_rows(storage.root, file, layout), file)
            work.end_others()

        return differing(place, columns, ending, fill, layout=layout, schema=schema)


def _has_versions(attempt: Attempt) -> bool:
    """Whether the table has versions that stay; those that an unfinished first copy has loaded do not."""
    state, progress = attempt.state, attempt.progress
    is_first = progress is not None and progress.snapshot_chunks is not None and not state.unmatched
    return end_column(state) is not None and len(state.files) > 0 and not is_first


def _rows(root: str, file: DataFile, layout: Layout) -> pa.Table:
    """The rows of a file that no version of the table has."""
    fields = [column.arrow for column in layout.columns]
    return pa.concat_tables([layout.physical.empty_table(), *live_rows(root, file.location, None, fields)])
