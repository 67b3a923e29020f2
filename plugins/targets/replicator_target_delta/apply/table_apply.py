"""One batch of one table: checks the table's position, has the files written, commits them with the progress."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import structlog

from replicator_sdk.authoring.row_repair import unmoved
from replicator_sdk.batch import TableChanges
from replicator_sdk.context import DeltaTargetContext
from replicator_sdk.errors import DataError, SchemaDriftError
from replicator_sdk.failpoint import failpoint, register
from replicator_sdk.net_change.numbering import Numbering
from replicator_sdk.offset import Position
from replicator_sdk.row_versions.difference import Ending
from replicator_sdk.row_versions.version_columns import now
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.target import TableProgress
from replicator_target_delta.apply.key_lookup import Place
from replicator_target_delta.apply.keyed import KeyedApply
from replicator_target_delta.apply.keyless import KeylessApply
from replicator_target_delta.apply.row_removal import FileChanges
from replicator_target_delta.config import DeltaConfig
from replicator_target_delta.log.table_state import State
from replicator_target_delta.merge_on_read.append import AppendApply
from replicator_target_delta.schema.metadata_columns import Stamper
from replicator_target_delta.schema.table_definition import TableDefinition
from replicator_target_delta.schema.table_form import TableForm, form_of
from replicator_target_delta.schema.types import Layout
from replicator_target_delta.table import Attempt, TargetTable
from replicator_target_delta.versions.difference import replace_versions
from replicator_target_delta.versions.history import VersionsApply
from replicator_target_delta.versions.version_columns import version_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

register("delta.repair.before", "delta.repair.after")
log = structlog.get_logger(__name__)


def fitting_state(
    attempt: Attempt, schema: TableSchema, form: TableForm, position: Position
) -> tuple[State, dict[str, Any] | None]:
    """The version that changes under `schema` start from; and the `metaData` to commit with them when the table is new.

    Raises:
        SchemaDriftError: When the table has other columns.
    """
    if attempt.progress is None:  # a table the source never announced
        metadata = TableDefinition.create(schema, form).to_metadata()
        return replace(attempt.state, layout=Layout.of(json.loads(metadata["schemaString"]))), metadata
    definition = TableDefinition(attempt.state.metadata)
    if not definition.matches(schema, form):
        raise of_another_form(schema.table, position, loses_history=definition.has_versions and not form.has_versions)
    attempt.state.key = tuple(attempt.state.layout[name].physical for name in schema.primary_key)
    return attempt.state, None


def of_another_form(table: TableId, position: Position, *, loses_history: bool) -> SchemaDriftError:
    """What to say of changes that the table cannot take as it is.

    Args:
        table: The table.
        position: That of the changes.
        loses_history: Whether a new copy takes versions of rows away that nothing else has.
    """
    if loses_history:
        return SchemaDriftError(
            "the table has every version of a row, and the target's `mode` is another one now",
            code="RPL-6405",
            table=str(table),
            position=str(position),
            hint="set `mode` to scd2 again, and the table goes on; or copy the table again, which takes its history away:"
            " `replicator table resync NAME TABLE`",
        )
    return SchemaDriftError(
        "the changes have other columns than the target's table, or its readers other keys",
        code="RPL-6405",
        table=str(table),
        position=str(position),
        hint="copy the table again: `replicator table resync NAME TABLE`",
    )


def unfitting_value(changes: TableChanges) -> DataError:
    """What to say when Arrow refuses a value; its own text may hold it."""
    return DataError(
        "a value does not fit its column at the target",
        code="RPL-5402",
        table=str(changes.table),
        position=str(changes.identity.position),
        hint="the source's type allows more than its standard type: report it, and leave the column out by `columns`",
    )


@dataclass(frozen=True, slots=True)
class _Written:
    """What a batch came to.

    Attributes:
        files: The files to commit.
        unmatched: The new `State.unmatched`; None where it stays.
        metadata: The `metaData` of a new table.
        highest: The highest sequence number of the table's changes.
    """

    files: FileChanges
    unmatched: str | None
    metadata: dict[str, Any] | None
    highest: int


class TableApply:
    """Applies batches to one table. Called under the table's lock."""

    def __init__(
        self, table: TargetTable, config: DeltaConfig, context: DeltaTargetContext, spark: SparkSession
    ) -> None:
        self._table = table
        self._config = config
        self._context = context
        self._spark = spark

    def apply(self, changes: TableChanges) -> None:
        """Apply all changes in one commit with their progress; nothing when the table has that position already."""
        attempt = self._table.begin()
        if attempt.has_reached(changes.identity.position):
            return
        self._table.ownership.check_follows(attempt.record, changes.follows)
        made = self._written(attempt, changes)
        progress = replace(TableProgress.of(changes.identity), last_sequence=made.highest)
        files, unmatched = made.files, made.unmatched
        self._table.commit(
            attempt, progress, add=files.add, remove=files.remove, metadata=made.metadata, unmatched=unmatched
        )

    def repair(self, changes: TableChanges) -> None:
        """As `RepairableConsumer.repair_rows`."""
        self._table.log.forget()
        attempt = self._table.begin()
        before = unmoved(attempt.progress, changes)
        written = self._written(attempt, changes, replaces=True)
        files = written.files
        failpoint("delta.repair.before")
        # A name of its own: by it a commit whose answer was lost is known again.
        batch = f"repair-{uuid.uuid4().hex[:12]}"
        progress = replace(self._table.ownership.taken_over(before), batch=batch)
        if form_of(self._config, changes.schema).has_versions:
            progress = replace(progress, last_sequence=written.highest)
        self._table.commit(attempt, progress, add=files.add, remove=files.remove)
        failpoint("delta.repair.after")

    def _written(self, attempt: Attempt, changes: TableChanges, *, replaces: bool = False) -> _Written:
        """Write the files.

        Args:
            attempt: The transaction.
            changes: The changes.
            replaces: Whether all rows of the keys go, also in the mode `merge-on-read`: a damaged row may have any watermark. Of a table of
                versions the current ones end that differ.

        Raises:
            DataError: When a value does not fit.
            SchemaDriftError: When the table has other columns.
        """
        form = form_of(self._config, changes.schema)
        state, metadata = fitting_state(attempt, changes.schema, form, changes.identity.position)
        size = state.written_bytes(self._config.target_file_bytes)
        place = Place(self._spark, state, self._table.log.storage, size, self._config.soft_deletes)
        before = 0 if attempt.progress is None else attempt.progress.last_sequence
        try:
            if form.has_versions:
                write = self._replace_versions if replaces else self._versions
                files, highest = write(place, changes, form, before)
                return _Written(files, None, metadata, highest)
            if form.keys is not None and not replaces:
                files, highest = self._append(place, changes, form, before)
                return _Written(files, None, metadata, highest)
            return _Written(*self._write(place, changes, form.names), metadata, changes.identity.last_sequence)
        except pa.ArrowInvalid as err:  # its text may hold the value
            raise unfitting_value(changes) from err

    def _append(self, place: Place, changes: TableChanges, form: TableForm, before: int) -> tuple[FileChanges, int]:
        """The files to commit, and the highest sequence number in the table then; `before` is the highest one now."""
        numbering = Numbering(before, changes.identity.first_sequence)
        append = AppendApply(place, changes, Stamper(form.names, str(changes.identity)), form, numbering)
        files = FileChanges(add=append.write())
        self._count_missing(changes, append.missing)
        return files, max(append.highest, changes.identity.last_sequence)

    def _versions(self, place: Place, changes: TableChanges, form: TableForm, before: int) -> tuple[FileChanges, int]:
        """As `_append`, of a table of versions."""
        numbering = Numbering(before, changes.identity.first_sequence)
        columns = version_columns(place.state.layout, form.names)
        stamper = Stamper(form.names, str(changes.identity))
        versions = VersionsApply(place, changes, stamper, columns, numbering, now=now())
        files = versions.write().to_changes(place.storage, place.state.files)
        failpoint("delta.vectors.written")
        self._count_missing(changes, versions.missing)
        return files, max(versions.highest, changes.identity.last_sequence)

    def _replace_versions(
        self, place: Place, changes: TableChanges, form: TableForm, before: int
    ) -> tuple[FileChanges, int]:
        """As `_versions`, for a repair: what is there already stays as it is."""
        return replace_versions(place, changes, form, Ending(before + 1, now())), before + 1

    def _write(self, place: Place, changes: TableChanges, names: dict[str, str]) -> tuple[FileChanges, str | None]:
        """The files to commit, and the new `State.unmatched`; None where it stays."""
        stamper = Stamper(names, str(changes.identity))
        if changes.schema.primary_key:
            keyed = KeyedApply(place, changes, stamper)
            files = keyed.run()
            self._count_missing(changes, keyed.missing)
            return files, None
        keyless = KeylessApply(place, changes, stamper, names)
        if keyless.only_adds:
            return keyless.append(), None
        files = keyless.run()
        self._count_missing(changes, keyless.missing)
        return files, self._unmatched(changes, keyless)

    def _unmatched(self, changes: TableChanges, keyless: KeylessApply) -> str | None:
        """What is stored of removals whose rows are not there yet; shown, since it says how far the partitions are apart."""
        found = keyless.unmatched
        if found is None:
            return None
        stored = found.stored(changes.table, changes.identity.position)
        self._context.metrics.gauge("dml.unmatched", found.copies, table=changes.table)
        log.info("delta.unmatched_removals", table=str(changes.table), copies=found.copies)
        return stored

    def _count_missing(self, changes: TableChanges, missing: int) -> None:
        """Rows that should exist: another program may have altered the table."""
        if missing:
            self._context.metrics.count("dml.missing", missing, table=changes.table)
