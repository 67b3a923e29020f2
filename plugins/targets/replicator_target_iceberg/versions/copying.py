"""Copies a table again that has versions: what is gone is ended, what differs is ended and opened, what is equal stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from replicator_sdk.errors import RetryableError
from replicator_sdk.row_versions import FIRST_COPY
from replicator_sdk.row_versions.difference import Ending
from replicator_sdk.row_versions.version_columns import now
from replicator_sdk.schema import TableSchema
from replicator_sdk.target import TableProgress
from replicator_target_iceberg.apply.keyed import Place, choosing_column
from replicator_target_iceberg.apply.row_changes import RowChanges
from replicator_target_iceberg.ddl.rewrite import live_rows
from replicator_target_iceberg.files.data_file import NewFile
from replicator_target_iceberg.files.live_files import LiveFile
from replicator_target_iceberg.log.branch import copy_branch
from replicator_target_iceberg.log.change import Change
from replicator_target_iceberg.schema.table_form import TableForm, form_of
from replicator_target_iceberg.snapshot import Content, TableSnapshotLoad
from replicator_target_iceberg.versions.copy_branch import Aside, aside_of
from replicator_target_iceberg.versions.current_versions import CurrentFiles, version_columns
from replicator_target_iceberg.versions.difference import Work, differing

if TYPE_CHECKING:
    from replicator_target_iceberg.table import Attempt


class VersionsSnapshotLoad(TableSnapshotLoad):
    """The snapshot of one table of versions. Called under the table's lock.

    Chunks of a first copy are current versions at once. Those of a later one are in a branch of their own, and one commit at the end
    compares them with the current versions.
    """

    def _goes_on(self, attempt: Attempt, snapshot_id: str) -> bool:
        is_finished = attempt.progress is not None and attempt.progress.snapshot_chunks is None
        if is_finished or not self._has_versions(attempt):
            return True
        aside = aside_of(attempt.there, self._config.branch)
        return aside is not None and aside.snapshot_id == snapshot_id and aside.chunks == _chunks(attempt)

    def _begun(self, attempt: Attempt, change: Change, begun: TableProgress) -> Content:
        if not self._has_versions(attempt):
            return super()._begun(attempt, change, begun)
        aside = Aside(now(), begun.snapshot_id)

        def put_aside() -> None:
            change.put_aside(copy_branch(self._config.branch), (), aside.properties(), begins=True)
            change.append()

        # Above that of a first copy: by it the chunks of this one are known from those.
        last = max(FIRST_COPY + 1, self._highest(attempt, change))
        return Content(replace(begun, last_sequence=last), self._without_copy(attempt, change, put_aside))

    def _loaded(
        self, attempt: Attempt, change: Change, files: list[NewFile], loaded: TableProgress
    ) -> Callable[[], None]:
        if not self._has_versions(attempt):
            return super()._loaded(attempt, change, files, loaded)
        aside = replace(self._aside(attempt), chunks=loaded.snapshot_chunks or frozenset())

        def put_aside() -> None:
            change.put_aside(copy_branch(self._config.branch), files, aside.properties())
            change.append()

        return put_aside

    def _finished(self, attempt: Attempt, change: Change, schema: TableSchema, finished: TableProgress) -> Content:
        if not self._has_versions(attempt):
            return super()._finished(attempt, change, schema, finished)
        aside = self._aside(attempt)
        chosen_by = choosing_column(change.layout, schema.primary_key)
        files = map(_as_new, self._table.files_of(attempt, chosen_by, aside.snapshot))
        ending = Ending(self._number(attempt, change), aside.began)
        made = self._compared(attempt, change, schema, files, ending)
        give = self._without_copy(attempt, change, lambda: made.give(change))
        return Content(replace(finished, last_sequence=ending.number), give, made.own)

    def _replaced(
        self, attempt: Attempt, change: Change, schema: TableSchema, files: list[NewFile], finished: TableProgress
    ) -> Content:
        if not self._has_versions(attempt):
            return super()._replaced(attempt, change, schema, files, finished)
        ending = Ending(self._number(attempt, change), self._began)
        made = self._compared(attempt, change, schema, files, ending)
        give = self._without_copy(attempt, change, lambda: made.give(change))
        needless = sorted({file.location for file in files} - made.whole)
        progress = replace(finished, last_sequence=ending.number)
        return Content(progress, give, [*made.written, *needless], needless)

    def _number(self, attempt: Attempt, change: Change) -> int:
        """Above all in the table; `FIRST_COPY` where it has no versions."""
        return self._highest(attempt, change) + 1 if self._has_versions(attempt) else FIRST_COPY

    def _highest(self, attempt: Attempt, change: Change) -> int:
        """The highest number in the table; read from its files where how far it is was expired."""
        if attempt.progress is not None:
            return attempt.progress.last_sequence
        return CurrentFiles(self._place(attempt, change, None)).highest_number()

    def _compared(
        self, attempt: Attempt, change: Change, schema: TableSchema, files: Iterable[NewFile], ending: Ending
    ) -> RowChanges:
        """What a copy in `files` changes of the table's versions."""
        place = self._place(attempt, change, schema)
        fields = list(place.layout.arrow)
        empty = version_columns(place.layout).schema.empty_table()

        def fill(work: Work) -> None:
            for file in files:
                parts = live_rows(place.storage, LiveFile.of(file), fields)
                work.take(pa.concat_tables([empty, *parts]), file)
            work.end_others()

        return differing(place, schema, ending, fill)

    def _place(self, attempt: Attempt, change: Change, schema: TableSchema | None) -> Place:
        layout, there = change.layout, attempt.there
        chosen_by = None if schema is None else choosing_column(layout, schema.primary_key)
        form = TableForm(self._config.mode) if schema is None else form_of(self._config, schema)
        files, size = self._table.files(attempt, chosen_by), self._config.target_file_bytes
        return Place(change.storage, files, layout, there.format_version, size, change.form, chosen_by, form)

    def _aside(self, attempt: Attempt) -> Aside:
        """The copy of which the table has chunks.

        Raises:
            RetryableError: RPL-4430 when another program has dropped it, or rolled the table back meanwhile.
        """
        aside = aside_of(attempt.there, self._config.branch)
        if aside is None or aside.chunks != _chunks(attempt):
            raise RetryableError(
                "another program has dropped the branch with the copy of the table that was under way, or rolled the table back",
                code="RPL-4430",
                table=str(self._table.table),
                hint="nothing to do: it is copied again by itself; keep other programs from dropping branches named `replicator.…`",
            )
        return aside

    def _has_versions(self, attempt: Attempt) -> bool:
        """Whether the table has versions that stay; those that an unfinished first copy has loaded do not."""
        if attempt.version is None or not attempt.version.has_versions or not attempt.version.has_rows:
            return False
        progress = attempt.progress
        is_first = (
            progress is not None and progress.snapshot_chunks is not None and progress.last_sequence == FIRST_COPY
        )
        return not is_first


def _chunks(attempt: Attempt) -> frozenset[int]:
    progress = attempt.progress
    return frozenset() if progress is None or progress.snapshot_chunks is None else progress.snapshot_chunks


def _as_new(file: LiveFile) -> NewFile:
    return NewFile(file.location, file.size, file.rows, file.lowest, file.highest, file.partition)
