"""One batch of one table: checks the table's position, has the files written, commits them with the progress."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from replicator_sdk.authoring.row_repair import unmoved
from replicator_sdk.batch import TableChanges
from replicator_sdk.context import DeltaTargetContext
from replicator_sdk.errors import DataError, SchemaDriftError
from replicator_sdk.failpoint import failpoint, register
from replicator_sdk.target import TableProgress
from replicator_target_iceberg.apply.history import append_changes
from replicator_target_iceberg.apply.keyed import KeyedApply, Place, choosing_column
from replicator_target_iceberg.apply.keyless import KeylessApply
from replicator_target_iceberg.apply.row_changes import RowChanges
from replicator_target_iceberg.config import IcebergConfig, Mode
from replicator_target_iceberg.files.live_files import LiveFiles
from replicator_target_iceberg.log.change import Change
from replicator_target_iceberg.schema.definition import Columns, new_schema
from replicator_target_iceberg.table import Attempt, TargetTable

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
        self._commit(attempt, changes, progress_of(changes))

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
        try:
            return self._written(place, changes)
        except pa.ArrowInvalid as error:  # its text may hold the value
            raise DataError(
                "a value does not fit its column at the target",
                code="RPL-5422",
                table=str(changes.table),
                position=str(changes.identity.position),
                hint="the source's type allows more than its standard type: report it, and leave the column out by `columns`",
            ) from error

    def repair(self, changes: TableChanges) -> None:
        """As `RepairableConsumer.repair_rows`; in the mode `merge`."""
        self._table.forget()
        attempt = self._table.begin()
        before = unmoved(attempt.progress, changes)
        failpoint("iceberg.repair.before")
        self._commit(attempt, changes, self._table.ownership.taken_over(before))
        failpoint("iceberg.repair.after")

    def _commit(self, attempt: Attempt, changes: TableChanges, progress: TableProgress) -> None:
        change = self._begun(attempt, changes)
        place = self._place(attempt, change, changes)
        files = self.write(place, changes)
        self._table.commit(attempt, change, progress, lambda: files.give(change), written=files.written)
        if self._config.mode is Mode.MERGE:
            self._table.follow(change, place.chosen_by, files.after(place.files))

    def _begun(self, attempt: Attempt, changes: TableChanges) -> Change:
        if attempt.version is None:  # a table the source never announced
            return self._table.change(attempt, new_schema(changes.schema, self._config.mode))
        self.check_columns(attempt.version.schema, changes)
        return self._table.change(attempt)

    def check_columns(self, schema: dict[str, Any], changes: TableChanges) -> None:
        """See that changes have the columns of a table, whose columns in Iceberg's JSON form are `schema`.

        Raises:
            SchemaDriftError: RPL-6425 when they have not.
        """
        if not Columns(schema, self._config.mode).matches(changes.schema):
            raise SchemaDriftError(
                "the changes have other columns than the target's table",
                code="RPL-6425",
                table=str(changes.table),
                position=str(changes.identity.position),
                hint="copy the table again: `replicator table resync NAME TABLE`",
            )

    def _place(self, attempt: Attempt, change: Change, changes: TableChanges) -> Place:
        layout = change.layout
        chosen_by = choosing_column(layout, changes.schema.primary_key) if self._config.mode is Mode.MERGE else None
        is_new = attempt.version is None
        is_looked_through = not is_new and self._config.mode is Mode.MERGE  # a history only grows
        files = self._table.files(attempt, chosen_by) if is_looked_through else LiveFiles([], change.specs())
        version = self._config.format_version if is_new else attempt.there.format_version
        return Place(change.storage, files, layout, version, self._config.target_file_bytes, change.form, chosen_by)

    def _written(self, place: Place, changes: TableChanges) -> RowChanges:
        if self._config.mode is Mode.APPEND:
            return append_changes(place, changes)
        one = KeyedApply(place, changes) if changes.schema.primary_key else KeylessApply(place, changes)
        files = one.run()
        if one.missing:  # rows that should exist: another program may have altered the table
            self._context.metrics.count("dml.missing", one.missing, table=changes.table)
        return files


def progress_of(changes: TableChanges) -> TableProgress:
    """What a table says of itself once the changes are in it."""
    return replace(TableProgress.of(changes.identity), valid_through=changes.valid_through)
