"""Applies DDL events: each is one commit that also holds the position, so that a replay finds it done."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from replicator_sdk.errors import BugError, NeedsUserError, SchemaDriftError
from replicator_sdk.event import Alter, AlterKind, DDLEvent, DDLOperation
from replicator_sdk.failpoint import failpoint, register
from replicator_sdk.merge_on_read import MergeOnReadDefinition
from replicator_sdk.merge_on_read.structure import obstacle
from replicator_sdk.net_change.numbering import Numbering
from replicator_sdk.offset import Position
from replicator_sdk.row_versions.difference import Difference, Ending
from replicator_sdk.row_versions.version_columns import microseconds
from replicator_target_iceberg.apply.history import truncate_row
from replicator_target_iceberg.apply.keyed import Place
from replicator_target_iceberg.config import IcebergConfig, Mode
from replicator_target_iceberg.ddl.another_form import of_another_form
from replicator_target_iceberg.ddl.arranged import Arranged, replace_columns
from replicator_target_iceberg.ddl.rewrite import NewValues, rewrite_files
from replicator_target_iceberg.files.data_file import NewFile, write_data_files
from replicator_target_iceberg.jvm import Jvm
from replicator_target_iceberg.log.change import Change
from replicator_target_iceberg.log.version import Version
from replicator_target_iceberg.schema.definition import Columns, Step, new_schema, refuse_twins
from replicator_target_iceberg.schema.table_form import HISTORY, TableForm, form_of
from replicator_target_iceberg.schema.types import field as column_of
from replicator_target_iceberg.schema.types import iceberg_type, is_wider, numbered, same_type
from replicator_target_iceberg.table import Attempt, NewTable, TargetTable
from replicator_target_iceberg.versions.current_versions import CurrentFiles
from replicator_target_iceberg.versions.difference import differing

register("iceberg.ddl.before", "iceberg.ddl.after")
_IGNORED = frozenset({AlterKind.TIGHTEN_COLUMN, AlterKind.CHANGE_KEY})


def parser(jvm: Jvm) -> Callable[[Any], Any]:
    """What turns a type's JSON form into the library's object."""

    def parse(kind: Any) -> Any:
        schema = {"type": "struct", "schema-id": 0, "fields": numbered([column_of("x", kind)])}
        return jvm[".SchemaParser"].fromJson(json.dumps(schema)).columns().get(0).type()

    return parse


class TableDDL:
    """Changes of one table's structure. Called under the table's lock."""

    def __init__(self, table: TargetTable, config: IcebergConfig, jvm: Jvm) -> None:
        self._table, self._config = table, config
        self._parse = parser(jvm)

    def apply(self, event: DDLEvent) -> None:
        """Apply `event` unless the table has its position already; durable on return.

        Raises:
            SchemaDriftError: When Iceberg cannot follow; nothing is changed then.
        """
        attempt = self._table.begin()
        if attempt.has_reached(_position(event)):
            return
        failpoint("iceberg.ddl.before")
        if event.operation is DDLOperation.CREATE_TABLE:
            self._create(attempt, event)
        elif attempt.version is None:
            if event.operation is not DDLOperation.DROP_TABLE:
                self._create(attempt, event)  # altered before it was ever written: its present shape is enough
        elif event.operation is DDLOperation.TRUNCATE_TABLE:
            self._truncate(attempt, event)
        elif event.operation is DDLOperation.DROP_TABLE:
            change = self._table.change(attempt)
            self._commit(attempt, event, change, change.append, dropped=True)
        elif event.operation is DDLOperation.ALTER_TABLE:
            self._alter(attempt, event)
        else:
            raise BugError(f"{event.operation} is no change of one table", code="RPL-9423", table=str(event.table))
        failpoint("iceberg.ddl.after")

    def _create(self, attempt: Attempt, event: DDLEvent) -> None:
        if event.schema is None:
            raise BugError(f"a {event.operation} without a schema", code="RPL-9424", table=str(event.table))
        form = form_of(self._config, event.schema)
        wanted = NewTable(new_schema(event.schema, form), form.properties)
        if attempt.version is None:
            change = self._table.change(attempt, wanted)
            self._commit(attempt, event, change, change.append)
            return
        if attempt.version.has_versions and not form.has_versions:
            raise of_another_form(event.table, _position(event), loses_history=True)
        change = self._table.change(attempt)
        if attempt.record is not None and attempt.record.dropped:
            keeps = attempt.version.has_versions and form.has_versions
            replace_columns(change, wanted, form, self._parse, str(event.table), keeps_values=keeps)
            if keeps:
                self._end_all(attempt, event, change)
                return
            # The kept table of a dropped one gives way to its successor; time travel still shows it.
            self._commit(attempt, event, change, lambda: change.replace_all(()))
        elif not attempt.version.fits(event.schema, form):
            raise SchemaDriftError(
                "the source creates a table that the target holds already with other columns",
                code="RPL-6422",
                table=str(event.table),
                position=str(event.position),
                hint="have what fills the log write the table's rows again, and move the target's table away: it is created again; or have all tables"
                " filled again: `replicator reset PIPELINE`",
            )
        else:
            self._commit(attempt, event, change, change.append)

    def _check_form(self, attempt: Attempt, event: DDLEvent) -> None:
        """See that a table with several rows of a key is written as what it is, and no other table is.

        Raises:
            SchemaDriftError: RPL-6425.
        """
        mode, wanted = attempt.there.mode, self._config.mode
        if mode is not wanted and (mode is not None or wanted is Mode.SCD2):
            loses = mode is Mode.SCD2
            raise of_another_form(event.table, _position(event), loses_history=loses)

    def _end_all(self, attempt: Attempt, event: DDLEvent, change: Change) -> None:
        """End all versions that are current."""
        before, layout = attempt.progress, change.layout
        highest = 0 if before is None else before.last_sequence
        number = event.sequence_number + Numbering(highest, event.sequence_number).added
        size, form = self._config.target_file_bytes, TableForm(self._config.mode)
        files = self._table.files(attempt, None)
        place = Place(change.storage, files, layout, attempt.there.format_version, size, change.form, None, form)
        made = differing(place, None, Ending(number, self._time(event, attempt, place)), Difference.end_others)
        progress = self._table.ownership.progress_at(before, _position(event), number)
        give, written = (lambda: made.give(change)), made.written
        self._table.commit(attempt, change, progress, give, dropped=False, written=written)

    def _time(self, event: DDLEvent, attempt: Attempt, place: Place) -> int:
        """When versions end; of a source that does not report its time it was no earlier than the changes before it, as far as they are known."""
        if event.source_timestamp is not None:
            return microseconds(event.source_timestamp)
        known = -1 if attempt.progress is None else attempt.progress.valid_through
        return max(known, CurrentFiles(place).latest_start())

    def _truncate(self, attempt: Attempt, event: DDLEvent) -> None:
        self._check_form(attempt, event)
        change = self._table.change(attempt)
        if self._config.mode is Mode.SCD2:
            self._end_all(attempt, event, change)
            return
        if self._config.mode is not Mode.APPEND:
            self._commit(attempt, event, change, lambda: change.replace_all(()))
            return
        row = write_data_files(change.storage, truncate_row(change.layout, event.sequence_number), change.form)
        self._commit(attempt, event, change, lambda: change.append(row), row)

    def _alter(self, attempt: Attempt, event: DDLEvent) -> None:
        self._check_form(attempt, event)
        change, values = self._table.change(attempt), dict[str, NewValues]()
        arranged = Arranged(
            change,
            lambda: {file.partition.spec for file in self._table.files(attempt, None)},
            str(event.table),
            str(event.position),
        )
        form = self._form_after(attempt.there, event)
        for alter in event.alters:
            self._step(change, form, arranged, alter, event, values)
        if event.schema is not None:
            columns = Columns(change.schema, form)
            if (step := columns.identify(event.schema.primary_key)) is not None:
                change.update_columns(step)
        if form.properties and form.properties != attempt.there.key_properties():
            change.name_keys(form.properties)
        values = {name: value for name, value in values.items() if name in change.layout}
        if values:
            self._rewrite(attempt, event, change, values)
        else:
            self._commit(attempt, event, change, change.append)

    def _form_after(self, version: Version, event: DDLEvent) -> TableForm:
        """The table's form once the event is applied.

        Raises:
            SchemaDriftError: RPL-6432 when the rows of a table with several of a key cannot be read by the keys that it has then.
        """
        if self._config.mode in {Mode.MERGE, Mode.APPEND}:
            return TableForm(self._config.mode, HISTORY if self._config.mode is Mode.APPEND else {})
        if event.schema is None:
            raise BugError("an ALTER_TABLE without a schema", code="RPL-9424", table=str(event.table))
        why = "the rows that it has say by the former key which of them are deleted"
        try:
            form = form_of(self._config, event.schema)
        except NeedsUserError as error:
            why = error.message
        else:
            if form.has_versions:
                why = ""  # which is found by the present key
            elif not any(alter.kind is AlterKind.CHANGE_KEY for alter in event.alters):
                why = _obstacle(version, form, event.alters)
            if not why:
                return form
        raise SchemaDriftError(
            f"a change of structure concerns a key that readers of the table need: {why}",
            code="RPL-6432",
            table=str(event.table),
            position=str(event.position),
            hint="correct `watermarkKeys` and `tombstoneKey` where one of their columns is gone; then copy the table again: `replicator table resync NAME TABLE`",
        )

    def _step(
        self,
        change: Change,
        form: TableForm,
        arranged: Arranged,
        alter: Alter,
        event: DDLEvent,
        values: dict[str, NewValues],
    ) -> None:
        """One step; a column whose existing rows get values is noted in `values` under its present name."""
        if alter.kind in _IGNORED:
            return
        columns = Columns(change.schema, form)
        old = alter.previous.name if alter.previous else ""
        step: Step | None
        if alter.kind is AlterKind.DROP_COLUMN:
            self._must_have(columns, old, event)
            arranged.release(old)
            values.pop(old, None)
            step = columns.drop(old)
        elif alter.column is None:
            raise BugError(f"a {alter.kind} without a column", code="RPL-9425", table=str(event.table))
        elif alter.kind is AlterKind.ADD_COLUMN:
            self._must_lack(columns, form, alter.column.name, event)
            arranged.admit(alter.column.name)
            step = columns.add(alter.column, self._parse)
            if alter.default is not None and not event.needs_snapshot:
                made = pa.array([alter.default], alter.column.type.arrow)
                values[alter.column.name] = NewValues(made, only_current=form.has_versions)
        elif alter.kind is AlterKind.RENAME_COLUMN:
            self._must_have(columns, old, event)
            arranged.admit(alter.column.name, old)
            step = self._renamed(columns, form, old, alter.column.name, event)
            if old in values:
                values[alter.column.name] = values.pop(old)
        elif alter.kind is AlterKind.RELAX_COLUMN:
            step = columns.relax(alter.column.name)
        else:
            self._must_have(columns, alter.column.name, event)
            step = self._retyped(change, arranged, columns, alter, event, values)
        if step is not None:
            change.update_columns(step)

    def _renamed(self, columns: Columns, form: TableForm, old: str, new: str, event: DDLEvent) -> Step:
        refuse_twins([*form.own_names, *(n for n in columns.names if n != old), new], str(event.table))
        return columns.rename(old, new)

    def _retyped(
        self,
        change: Change,
        arranged: Arranged,
        columns: Columns,
        alter: Alter,
        event: DDLEvent,
        values: dict[str, NewValues],
    ) -> Step | None:
        assert alter.column is not None
        name, kind = alter.column.name, iceberg_type(alter.column.type)
        before = columns.type_of(name)
        if same_type(before, kind):
            return None  # varchar(10) to text: the same type here
        if is_wider(before, kind) and name not in values:
            arranged.widen(name)
            return columns.widen(name, kind, self._parse)
        if self._config.mode is Mode.APPEND:
            raise SchemaDriftError(
                f"Iceberg does not turn {before} into {kind}, and rows of the past are not written again",
                code="RPL-6426",
                table=str(event.table),
                position=str(event.position),
                hint="copy the table again, whose history then begins from scratch: `replicator table resync NAME TABLE`",
            )
        arranged.release(name)
        if not event.needs_snapshot:
            values[name] = values.get(name) or NewValues(origin=change.layout.field(name))
        return columns.replace(alter.column, self._parse)

    def _must_have(self, columns: Columns, name: str, event: DDLEvent) -> None:
        if not columns.has(name):
            raise SchemaDriftError(
                f"the target's table has no column {name!r} to change",
                code="RPL-6423",
                table=str(event.table),
                position=str(event.position),
                hint="the target was altered by another program: copy the table again: `replicator table resync NAME TABLE`",
            )

    def _must_lack(self, columns: Columns, form: TableForm, name: str, event: DDLEvent) -> None:
        """See that a column to add does not exist: which of its values are the source's is unknown then."""
        if columns.has(name):
            raise SchemaDriftError(
                f"the target's table has the column {name!r} already that the source adds",
                code="RPL-6427",
                table=str(event.table),
                position=str(event.position),
                hint="copy the table again: `replicator table resync NAME TABLE`",
            )
        refuse_twins([*form.own_names, *columns.names, name], str(event.table))

    def _rewrite(self, attempt: Attempt, event: DDLEvent, change: Change, values: dict[str, NewValues]) -> None:
        """Commit the new columns together with files that hold the existing rows under them."""
        every = self._table.files(attempt, None)
        stays = [f for f in every if f.is_past] if all(value.only_current for value in values.values()) else []
        files = [file for file in every if not stays or not file.is_past]
        try:
            made = rewrite_files(change.storage, files, change.layout.arrow, values, change.form)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise SchemaDriftError(
                f"existing rows do not fit the new type of {', '.join(map(repr, values))}",
                code="RPL-6424",
                table=str(event.table),
                position=str(event.position),
                hint="copy the table again: `replicator table resync NAME TABLE`, or leave the column out by `columns`",
            ) from error
        if not stays:
            self._commit(attempt, event, change, lambda: change.replace_all(made), made)
            return
        deletes = [ref for file in files for ref in file.deletes if ref.data_file]
        self._commit(attempt, event, change, lambda: change.change_rows(made, files, deletes), made)

    def _commit(
        self,
        attempt: Attempt,
        event: DDLEvent,
        change: Change,
        content: Callable[[], None],
        written: list[NewFile] | None = None,
        *,
        dropped: bool = False,
    ) -> None:
        progress = self._table.ownership.progress_at(attempt.progress, _position(event), event.sequence_number)
        made = [file.location for file in written or ()]
        self._table.commit(attempt, change, progress, content, dropped=dropped, written=made)


def _obstacle(version: Version, form: TableForm, steps: Sequence[Alter]) -> str:
    """Why readers would see other rows after steps that lead to `form`; empty when they would not."""
    assert form.keys is not None
    is_of_mode = version.mode is Mode.MERGE_ON_READ
    before = MergeOnReadDefinition.from_properties(version.key_properties()) if is_of_mode else None
    return obstacle(before, form.keys.definition, steps, iceberg_type)


def _position(event: DDLEvent) -> Position:
    if event.position is None:
        raise BugError("a DDL event without a position", code="RPL-9426", table=str(event.table))
    return event.position
