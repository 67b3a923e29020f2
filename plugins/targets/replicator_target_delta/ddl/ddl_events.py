"""Applies DDL events: each is one commit that also holds the position, so that a replay finds it done."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from replicator_sdk.errors import BugError, NeedsUserError, SchemaDriftError
from replicator_sdk.event import Alter, AlterKind, DDLEvent, DDLOperation
from replicator_sdk.failpoint import failpoint, register
from replicator_sdk.merge_on_read.structure import obstacle
from replicator_sdk.net_change.numbering import Numbering
from replicator_sdk.row_versions.difference import Ending
from replicator_sdk.row_versions.version_columns import microseconds
from replicator_target_delta.apply.key_lookup import Place
from replicator_target_delta.apply.table_apply import of_another_form
from replicator_target_delta.apply.unmatched_rows import UnmatchedRows
from replicator_target_delta.config import DeltaConfig, Mode
from replicator_target_delta.ddl.backfill import NewValues, rewrite_table
from replicator_target_delta.schema.encoding import conform
from replicator_target_delta.schema.table_definition import TableDefinition
from replicator_target_delta.schema.table_form import TableForm, form_of
from replicator_target_delta.schema.types import Layout, same_type, spark_type
from replicator_target_delta.table import Attempt, TargetTable
from replicator_target_delta.versions.difference import Work, differing
from replicator_target_delta.versions.version_columns import end_column, latest_time, version_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from replicator_sdk.merge_on_read import MergeOnReadDefinition

register("delta.ddl.before", "delta.ddl.after")
_CHOICES: Final = "copy the table again: `replicator table resync NAME TABLE`, or leave the column out by `columns`"


class TableDDL:
    """Changes of one table's structure. Called under the table's lock."""

    def __init__(self, table: TargetTable, config: DeltaConfig, spark: SparkSession) -> None:
        self._table = table
        self._config = config
        self._spark = spark

    def apply(self, event: DDLEvent) -> None:
        """Apply `event` unless the table has its position already; durable on return.

        Raises:
            SchemaDriftError: When Delta cannot follow; nothing is changed then.
        """
        if event.position is None:
            raise BugError("a DDL event without a position", code="RPL-9402", table=str(event.table))
        attempt = self._table.begin()
        if attempt.has_reached(event.position):
            return
        failpoint("delta.ddl.before")
        if event.operation is DDLOperation.CREATE_TABLE:
            self._create(attempt, event)
        elif attempt.progress is None:
            if event.operation is not DDLOperation.DROP_TABLE:
                self._create(attempt, event)  # altered before it was ever written: its present shape is enough
        elif event.operation is DDLOperation.TRUNCATE_TABLE:
            self._truncate(attempt, event)
        elif event.operation is DDLOperation.DROP_TABLE:
            self._commit(attempt, event, dropped=True)
        elif event.operation is DDLOperation.ALTER_TABLE:
            self._check_form(attempt, event)
            self._alter(attempt, event)
        else:
            raise BugError(f"{event.operation} is no change of one table", code="RPL-9403", table=str(event.table))
        failpoint("delta.ddl.after")

    def _create(self, attempt: Attempt, event: DDLEvent) -> None:
        if event.schema is None:
            raise BugError(f"a {event.operation} without a schema", code="RPL-9404", table=str(event.table))
        form = form_of(self._config, event.schema)
        if attempt.progress is None:
            self._commit(attempt, event, metadata=TableDefinition.create(event.schema, form).to_metadata())
            return
        definition = TableDefinition(attempt.state.metadata)
        if attempt.record is not None and attempt.record.dropped:
            # The kept table of a dropped one gives way to its successor; time travel still shows it.
            if self._has_versions(attempt) and form.has_versions:
                self._end_all(attempt, event, definition.evolved(event.schema, form).to_metadata())
                return
            self._commit(attempt, event, metadata=definition.replaced(event.schema, form).to_metadata(), remove=True)
        elif not definition.matches(event.schema, form):
            raise SchemaDriftError(
                "the source creates a table that the target holds already with other columns",
                code="RPL-6402",
                table=str(event.table),
                position=str(event.position),
                hint="have what fills the log write the table's rows again, and move the target's table away: it is created again; or have all tables"
                " filled again: `replicator reset PIPELINE`",
            )
        else:
            self._commit(attempt, event)

    def _check_form(self, attempt: Attempt, event: DDLEvent) -> None:
        """See that a table of versions is written as one, and no other table is; by the names that its columns have.

        Raises:
            SchemaDriftError: RPL-6405.
        """
        has, wants = self._has_versions(attempt), self._config.mode is Mode.SCD2
        layout, names = attempt.state.layout, self._config.metadata_names().values()
        if has != wants or (has and not all(name in layout for name in names)):
            raise of_another_form(event.table, _position(event), loses_history=has and not wants)

    def _truncate(self, attempt: Attempt, event: DDLEvent) -> None:
        self._check_form(attempt, event)
        if self._has_versions(attempt):
            self._end_all(attempt, event)
        else:
            self._commit(attempt, event, remove=True)

    def _has_versions(self, attempt: Attempt) -> bool:
        return TableDefinition(attempt.state.metadata).has_versions

    def _end_all(self, attempt: Attempt, event: DDLEvent, metadata: dict[str, Any] | None = None) -> None:
        """End all versions that are current."""
        before, number = attempt.progress, event.sequence_number
        assert before is not None
        number += Numbering(before.last_sequence, number).added
        state, storage = attempt.state, self._table.log.storage
        place = Place(self._spark, state, storage, state.written_bytes(self._config.target_file_bytes), False)
        # Of a source that does not report its time it was no earlier than the changes before it, and no later than those after it.
        layout = state.layout if metadata is None else Layout.of(json.loads(metadata["schemaString"]))
        columns, known = version_columns(layout, self._config.metadata_names()), event.source_timestamp
        time = latest_time(state, columns) if known is None else microseconds(known)
        changes = differing(place, columns, Ending(number, time), Work.end_others, layout=layout)
        progress = self._table.progress_at(attempt, _position(event), number)
        dropped = None if metadata is None else False
        self._table.commit(
            attempt, progress, add=changes.add, remove=changes.remove, metadata=metadata, dropped=dropped
        )

    def _alter(self, attempt: Attempt, event: DDLEvent) -> None:
        definition = TableDefinition(attempt.state.metadata)
        values: dict[str, _Source] = {}
        for alter in event.alters:
            self._step(definition, alter, event, values)
        if self._config.mode is Mode.SCD2 and definition.has_versions:
            definition.follow(_versions_form(self._config, event))
        if self._config.mode is Mode.MERGE_ON_READ:
            self._follow_keys(definition, TableDefinition(attempt.state.metadata).keys, event)
        metadata = definition.to_metadata()
        if metadata == TableDefinition(attempt.state.metadata).to_metadata():
            self._commit(attempt, event)  # nullability and keys are not the target's business: all columns allow NULL
        elif not any(definition.has(name) for name in values):
            self._commit(attempt, event, metadata=metadata)
        else:
            self._rewrite(attempt, event, metadata, values)

    def _follow_keys(self, definition: TableDefinition, before: MergeOnReadDefinition | None, event: DDLEvent) -> None:
        """Have the properties name the keys as they are called now; `before` are those of the table's rows.

        Raises:
            SchemaDriftError: RPL-6414 when the table's rows cannot be read by the keys that it has now.
        """
        if event.schema is None:
            raise BugError("an ALTER_TABLE without a schema", code="RPL-9404", table=str(event.table))
        why = "the rows that it has say by the former key which of them are deleted"
        try:
            form = form_of(self._config, event.schema)
        except NeedsUserError as error:
            why = error.message
        else:
            if not any(alter.kind is AlterKind.CHANGE_KEY for alter in event.alters):
                assert form.keys is not None
                why = obstacle(before, form.keys.definition, event.alters, spark_type)
            if not why:
                definition.follow(form)
                return
        raise SchemaDriftError(
            f"a change of structure concerns a key that readers of the table need: {why}",
            code="RPL-6414",
            table=str(event.table),
            position=str(event.position),
            hint="correct `watermarkKeys` and `tombstoneKey` where one of their columns is gone; then copy the table again: `replicator table resync NAME TABLE`",
        )

    def _step(self, definition: TableDefinition, alter: Alter, event: DDLEvent, values: dict[str, _Source]) -> None:
        """One step; a column whose existing rows get values is noted in `values` under its present name."""
        old = alter.previous.name if alter.previous else ""
        if alter.kind in {AlterKind.RELAX_COLUMN, AlterKind.TIGHTEN_COLUMN, AlterKind.CHANGE_KEY}:
            return
        if alter.kind is AlterKind.DROP_COLUMN:
            self._must_have(definition, old, event)
            definition.drop(old)
            values.pop(old, None)
            return
        assert alter.column is not None
        new = alter.column.name
        if alter.kind is AlterKind.ADD_COLUMN:
            self._must_lack(definition, new, event)
            definition.add(alter.column, str(event.table))
            if alter.default is not None and not event.needs_snapshot:
                values[new] = _Source(default=alter.default, kind=alter.column.type.arrow)
        elif alter.kind is AlterKind.RENAME_COLUMN:
            self._must_have(definition, old, event)
            definition.rename(old, new, str(event.table))
            if old in values:
                values[new] = values.pop(old)
        elif alter.kind is AlterKind.RETYPE_COLUMN:
            self._must_have(definition, new, event)
            self._retype(definition, alter, event, values)
        else:
            raise BugError(f"unknown step {alter.kind}", code="RPL-9405", table=str(event.table))

    def _retype(self, definition: TableDefinition, alter: Alter, event: DDLEvent, values: dict[str, _Source]) -> None:
        assert alter.column is not None
        name = alter.column.name
        if same_type(definition.type_of(name), spark_type(alter.column.type)):
            return  # varchar(10) to text: the same type here
        physical = definition.physical(name)
        before = values.get(name)
        definition.replace_type(alter.column)
        if not event.needs_snapshot:
            values[name] = before or _Source(physical=physical)

    def _must_have(self, definition: TableDefinition, name: str, event: DDLEvent) -> None:
        if not definition.has(name):
            raise SchemaDriftError(
                f"the target's table has no column {name!r} to change",
                code="RPL-6403",
                table=str(event.table),
                position=str(event.position),
                hint="the target was altered by another program: copy the table again: `replicator table resync NAME TABLE`",
            )

    def _must_lack(self, definition: TableDefinition, name: str, event: DDLEvent) -> None:
        """See that a column to add does not exist: which of its values are the source's is unknown then."""
        if definition.has(name):
            raise SchemaDriftError(
                f"the target's table has the column {name!r} already that the source adds",
                code="RPL-6407",
                table=str(event.table),
                position=str(event.position),
                hint="copy the table again: `replicator table resync NAME TABLE`; a replicator's own column gets another name by `metadataPrefix`, a tombstone key by `tombstoneKey`",
            )

    def _rewrite(self, attempt: Attempt, event: DDLEvent, metadata: dict[str, Any], values: dict[str, _Source]) -> None:
        """Commit the new definition together with files that hold the existing rows under it."""
        layout = Layout.of(json.loads(metadata["schemaString"]))
        before = {c.physical: c.arrow for c in attempt.state.layout.columns}
        try:
            only_null = end_column(attempt.state)
            made = [
                source.values(layout[name].arrow, before, only_null)
                for name, source in values.items()
                if name in layout
            ]
            log = self._table.log
            files = rewrite_table(self._spark, attempt.state, log.storage, layout.physical, made)
            unmatched = self._unmatched(attempt, event, layout, made)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as err:
            raise SchemaDriftError(
                f"existing rows do not fit the new type of {', '.join(map(repr, values))}",
                code="RPL-6404",
                table=str(event.table),
                position=str(event.position),
                hint=_CHOICES,
            ) from err
        progress = self._table.progress_at(attempt, _position(event), event.sequence_number)
        self._table.commit(
            attempt,
            progress,
            add=files,
            remove=list(attempt.state.files.all_actions()),
            metadata=metadata,
            unmatched=unmatched,
        )

    def _unmatched(self, attempt: Attempt, event: DDLEvent, layout: Layout, values: Sequence[NewValues]) -> str | None:
        """Removals whose rows are not there yet, under the new definition; the same as `rewrite_table` does with rows."""
        stored = attempt.state.unmatched
        if not stored or self._has_versions(attempt):
            return None
        ours = set(self._config.metadata_names().values())  # of a table without a key: it is a merged one
        found = UnmatchedRows.of(stored, [c.arrow for c in attempt.state.layout.columns if c.name not in ours])
        made = {v.field.name: v.of(found.rows) for v in values}
        fields = [c.arrow for c in layout.columns if c.name not in ours]
        columns = [made[f.name] if f.name in made else found.rows.column(f.name) for f in fields]
        rows = pa.Table.from_arrays(columns, schema=pa.schema(fields))
        return UnmatchedRows(rows, found.counts).stored(event.table, event.position)

    def _commit(
        self,
        attempt: Attempt,
        event: DDLEvent,
        *,
        metadata: dict[str, Any] | None = None,
        remove: bool = False,
        dropped: bool = False,
    ) -> None:
        progress = self._table.progress_at(attempt, _position(event), event.sequence_number)
        files = list(attempt.state.files.all_actions()) if remove else []
        # A row and its removal are on the same side of a TRUNCATE: what waits for its row then, waits on.
        unmatched = "" if remove and event.operation is not DDLOperation.TRUNCATE_TABLE else None
        self._table.commit(attempt, progress, remove=files, metadata=metadata, dropped=dropped, unmatched=unmatched)


class _Source:
    """Where the values of a column come from: a default of the source, or a column under its former type."""

    def __init__(self, *, default: Any = None, kind: pa.DataType | None = None, physical: str = "") -> None:
        self._default = default
        self._kind = kind
        self._physical = physical

    def values(self, field: pa.Field, before: dict[str, pa.Field], only_null: pa.Field | None) -> NewValues:
        """For the column's present field in the files; versions that have ended had no default."""
        if self._physical in before:
            return NewValues(field, origin=before[self._physical])
        if self._physical:  # added and retyped in one event: old files have NULL in it
            return NewValues(field, default=pa.scalar(None, field.type))
        made = conform(pa.array([self._default], self._kind), field.type)
        return NewValues(field, default=made[0], only_null=only_null)


def _versions_form(config: DeltaConfig, event: DDLEvent) -> TableForm:
    if event.schema is None:
        raise BugError("an ALTER_TABLE without a schema", code="RPL-9404", table=str(event.table))
    return form_of(config, event.schema)


def _position(event: DDLEvent) -> Any:
    assert event.position is not None
    return event.position
