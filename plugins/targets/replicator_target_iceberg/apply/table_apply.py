"""One batch of one table: checks the table's position, has the files written, commits them with the progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa

from replicator_sdk.authoring.row_repair import unmoved
from replicator_sdk.batch import TableChanges
from replicator_sdk.context import DeltaTargetContext
from replicator_sdk.errors import DataError
from replicator_sdk.failpoint import failpoint, register
from replicator_sdk.row_versions.difference import Ending
from replicator_sdk.row_versions.version_columns import now
from replicator_sdk.target import TableProgress
from replicator_target_iceberg.apply.appended import append_rows
from replicator_target_iceberg.apply.history import append_changes
from replicator_target_iceberg.apply.keyed import KeyedApply, Place, choosing_column
from replicator_target_iceberg.apply.keyless import KeylessApply
from replicator_target_iceberg.apply.row_changes import RowChanges
from replicator_target_iceberg.config import IcebergConfig
from replicator_target_iceberg.ddl.another_form import of_another_form
from replicator_target_iceberg.files.live_files import LiveFiles
from replicator_target_iceberg.log.change import Change
from replicator_target_iceberg.log.version import Version
from replicator_target_iceberg.schema.definition import new_schema
from replicator_target_iceberg.schema.table_form import form_of
from replicator_target_iceberg.table import Attempt, NewTable, TargetTable
from replicator_target_iceberg.versions.difference import replace_versions
from replicator_target_iceberg.versions.history import open_versions

register("iceberg.repair.before", "iceberg.repair.after")


class TableApply:
    """Applies batches to one table. Called under the table's lock."""

    def __init__(self, table: TargetTable, config: IcebergConfig, context: DeltaTargetContext) -> None:
        self._table, self._config, self._context = table, config, context

    def apply(self, changes: TableChanges) -> None:
        """Apply all changes in one commit with their progress; nothing when the table has that position already.

        Raises:
            DataError: When a value does not fit.
            SchemaDriftError: RPL-6425 when the table has other columns.
        """
        attempt = self._table.begin()
        if attempt.has_reached(changes.identity.position):
            return
        self._table.ownership.check_follows(attempt.record, changes.follows)
        self._table.note_partitions(attempt)
        change = self._begun(attempt, changes)
        place = self._place(attempt, change, changes)
        files = self.write(place, changes)
        self._commit(attempt, change, place, files, progress_of(changes, files))

    def place(self, attempt: Attempt, changes: TableChanges) -> Place:
        """Where and how the files of further batches are written, which follow the version of `attempt`; for a table that is there.

        Raises:
            SchemaDriftError: RPL-6425 when the table has other columns.
        """
        return self._place(attempt, self._begun(attempt, changes), changes)

    def write(self, place: Place, changes: TableChanges) -> RowChanges:
        """Write the files of a batch; in effect once what is returned is committed.

        Raises:
            DataError: When a value does not fit.
        """
        return self._fitting(changes, lambda: self._written(place, changes))

    def _fitting(self, changes: TableChanges, write: Callable[[], RowChanges]) -> RowChanges:
        try:
            return write()
        except pa.ArrowInvalid as error:  # its text may hold the value
            raise DataError(
                "a value does not fit its column at the target",
                code="RPL-5422",
                table=str(changes.table),
                position=str(changes.identity.position),
                hint="the source's type allows more than its standard type: report it, and leave the column out by `columns`",
            ) from error

    def repair(self, changes: TableChanges) -> None:
        """As `RepairableConsumer.repair_rows`; not in the mode `append`. All rows of the keys go, also in the mode `merge-on-read`: a
        damaged row may have any watermark.
        """
        self._table.forget()
        attempt = self._table.begin()
        before = unmoved(attempt.progress, changes)
        failpoint("iceberg.repair.before")
        change = self._begun(attempt, changes)
        place = self._place(attempt, change, changes)
        progress = self._table.ownership.taken_over(before)
        if place.table.has_versions:
            ending = Ending(place.highest + 1, now())
            progress = replace(progress, last_sequence=ending.number)
            files = self._fitting(changes, lambda: replace_versions(place, changes, ending))
        else:
            files = self._fitting(changes, lambda: KeyedApply(place, changes).run())
        self._commit(attempt, change, place, files, progress)
        failpoint("iceberg.repair.after")

    def _commit(
        self, attempt: Attempt, change: Change, place: Place, files: RowChanges, progress: TableProgress
    ) -> None:
        self._table.commit(attempt, change, progress, lambda: files.give(change), written=files.written)
        if not place.table.is_history:
            self._table.follow(change, place.chosen_by, files.after(place.files))

    def _begun(self, attempt: Attempt, changes: TableChanges) -> Change:
        if attempt.version is None:  # a table the source never announced
            form = form_of(self._config, changes.schema)
            return self._table.change(attempt, NewTable(new_schema(changes.schema, form), form.properties))
        self.check_columns(attempt.version, changes)
        change, form = self._table.change(attempt), form_of(self._config, changes.schema)
        if form.has_versions and attempt.version.key_properties() != form.properties:
            change.name_keys(form.properties)
        return change

    def check_columns(self, version: Version, changes: TableChanges) -> None:
        """See that changes have the columns of a table's version, and its readers the keys of the settings.

        Raises:
            SchemaDriftError: RPL-6425 when they have not.
        """
        form = form_of(self._config, changes.schema)
        if not version.fits(changes.schema, form):
            loses = version.has_versions and not form.has_versions
            raise of_another_form(changes.table, changes.identity.position, loses_history=loses)

    def _place(self, attempt: Attempt, change: Change, changes: TableChanges) -> Place:
        layout = change.layout
        form, is_new = form_of(self._config, changes.schema), attempt.version is None
        chosen_by = None if form.is_history else choosing_column(layout, changes.schema.primary_key)
        is_looked_through = not is_new and not form.is_history  # a history only grows
        files = self._table.files(attempt, chosen_by) if is_looked_through else LiveFiles([], change.specs())
        version = self._config.format_version if is_new else attempt.there.format_version
        highest = 0 if attempt.progress is None else attempt.progress.last_sequence
        size = self._config.target_file_bytes
        return Place(change.storage, files, layout, version, size, change.form, chosen_by, form, highest)

    def _written(self, place: Place, changes: TableChanges) -> RowChanges:
        if place.table.is_history:
            return append_changes(place, changes)
        if place.table.has_versions:
            files, missing = open_versions(place, changes)
        elif place.table.keys is not None:
            files, missing = append_rows(place, changes)
        else:
            one = KeyedApply(place, changes) if changes.schema.primary_key else KeylessApply(place, changes)
            files, missing = one.run(), one.missing
        if missing:  # rows that should exist: another program may have altered the table
            self._context.metrics.count("dml.missing", missing, table=changes.table)
        return files


def progress_of(changes: TableChanges, made: RowChanges) -> TableProgress:
    """What a table says of itself once the changes are in it.

    Args:
        changes: The changes.
        made: What was written of them.
    """
    known = TableProgress.of(changes.identity)
    highest = max(known.last_sequence, made.highest)
    return replace(known, valid_through=changes.valid_through, last_sequence=highest)
