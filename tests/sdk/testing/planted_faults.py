"""Faults planted into example plugins, each with the claim of the conformance kit that finds it.

A fault is an edit of the plugin's text. `docs/conformance.md` has the same list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from replicator_sdk import DDLOperation
from replicator_sdk.testing.histories.history import load_case


@dataclass(frozen=True)
class Fault:
    """One edit of one plugin.

    Attributes:
        name: What the plugin gets wrong.
        module: The module that is edited, without its package.
        before: A part of its text.
        after: What takes its place.
        claim: The test of the kit that finds it.
        arguments: The test's parameters.
    """

    name: str
    module: str
    before: str
    after: str
    claim: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


_MADE = "test_what_is_there_is_what_the_history_makes"
_AGAIN = "test_a_ddl_event_that_comes_again_changes_nothing"
_INTERRUPTED = "test_an_interrupted_call_leaves_rows_and_progress_that_fit"
_STRUCTURE = "test_a_lower_epoch_changes_no_structure"
_RENAMED = "test_a_renamed_table_keeps_its_rows_and_takes_changes"
_DATABASES = "test_a_database_comes_and_goes"
_MAINTAINED = "test_maintenance_changes_nothing_that_readers_see"
_FOLLOWED = "test_a_renamed_table_is_followed"
_EMITTED = "test_what_the_reader_emits_is_what_happened"


def _cut(name: str) -> dict[str, Any]:
    return {"case": load_case(name), "cut": "first alone"}


def _case(name: str) -> dict[str, Any]:
    return {"case": load_case(name)}


_APPLIED = "                _apply(file, changes, batch)\n"
_STORED = "            self._store(file, TableProgress.of(changes.identity), changes.schema)\n"
_OPENED = "        with self._open(changes.table) as file:\n"
_REACHED = "if file.progress and {} <= file.progress.position:"

_GONE = "        place.rmdir()\n        mark.unlink()\n"
_DROPPED = """    elif mark.exists() and not (place.exists() and any(place.iterdir())):
        if place.exists():
            place.rmdir()
        mark.unlink()
"""

IN_SQLITE_FILES = (
    Fault(
        "progress is committed after the rows, apart from them",
        "target",
        _APPLIED + _STORED,
        _APPLIED + _OPENED + _STORED,
        _INTERRUPTED,
        {"name": "seed_without_primary_key"},
    ),
    Fault(
        "progress is committed before the rows",
        "target",
        "            for batch in changes.batches():\n" + _APPLIED + _STORED,
        _STORED + _OPENED + "            for batch in changes.batches():\n" + _APPLIED,
        _INTERRUPTED,
        {"name": "seed_without_primary_key"},
    ),
    Fault(
        "a change of structure is committed apart from its position",
        "target",
        "        progress = file.progress or self._progress(event.position)\n",
        '        file.run("COMMIT")\n        file.run("BEGIN IMMEDIATE")\n'
        "        progress = file.progress or self._progress(event.position)\n",
        _INTERRUPTED,
        {"name": "truncate_alone"},
    ),
    Fault(
        "RETYPE is ignored",
        "target",
        "AlterKind.RELAX_COLUMN | AlterKind",
        "AlterKind.RETYPE_COLUMN | AlterKind.RELAX_COLUMN | AlterKind",
        _MADE,
        _cut("retype_to_text"),
    ),
    Fault(
        "CHANGE_KEY is ignored",
        "target",
        "AlterKind.RELAX_COLUMN | AlterKind",
        "AlterKind.CHANGE_KEY | AlterKind.RELAX_COLUMN | AlterKind",
        _MADE,
        _cut("change_key"),
    ),
    Fault(
        "DROP TABLE is ignored",
        "target",
        "self.path(event.table).unlink()",
        "pass",
        "test_a_dropped_table_has_no_progress",
    ),
    Fault(
        "DROP TABLE comes again and drops the new table",
        "target",
        "            if " + _REACHED.format("event.position and event.position")[3:] + "\n                return\n",
        "",
        "test_a_drop_that_comes_again_leaves_the_new_table_alone",
    ),
    Fault(
        "an older run drops the table",
        "target",
        "file.check(self._context.epoch)",
        "pass",
        _STRUCTURE,
        {"operation": DDLOperation.DROP_TABLE},
    ),
    Fault(
        "an older run changes structure",
        "target",
        "self._store(file, replace(progress, position=event.position), schema)",
        "file.store(max(self._context.epoch, progress.epoch), replace(progress, position=event.position), schema)",
        _STRUCTURE,
        {"operation": DDLOperation.ALTER_TABLE},
    ),
    Fault(
        "an older run writes rows",
        "table",
        "self.progress.epoch > epoch",
        "self.progress.epoch > epoch + 99",
        "test_a_lower_epoch_is_fenced",
    ),
    Fault(
        "a row that moved during the copy raises no SnapshotNeededError",
        "target",
        "if unsent and changes.overlap and",
        "if False and",
        "test_a_move_in_an_overlap_without_all_columns_needs_a_new_copy",
    ),
    Fault(
        "columns that are nowhere become NULL",
        "target",
        "if unsent and old is None:",
        "if False:",
        "test_an_update_of_a_missing_row_without_all_columns_is_refused",
    ),
    Fault(
        "an update that is undone later is refused",
        "target",
        "if changes.drops_lost_updates:",
        "if False:",
        "test_an_update_of_a_row_that_is_deleted_later_is_dropped",
    ),
    Fault(
        "a table that no replicator wrote is taken",
        "table",
        "if not about and",
        "if False and",
        "test_a_table_that_no_replicator_wrote_is_refused",
    ),
    Fault(
        "a table of another replicator is taken",
        "table",
        'if about.get("owner", owner) != owner:',
        "if False:",
        "test_a_table_of_another_replicator_is_refused",
    ),
    Fault(
        "a batch that comes again is applied again",
        "target",
        _REACHED.format("changes.identity.position"),
        "if False:",
        _MADE,
        _cut("seed_without_primary_key"),
    ),
    Fault(
        "a change of structure that comes again is applied again",
        "target",
        _REACHED.format("event.position and event.position"),
        "if False:",
        _AGAIN,
        _case("add_column"),
    ),
    Fault("moved keys are not followed", "target", "befores[index] or row", "row", _MADE, _cut("key_moved_and_back")),
    Fault(
        "columns that were not sent become NULL",
        "target",
        "row |= {name: old[name] for name in unsent if old}",
        "pass",
        _MADE,
        _cut("unchanged_column"),
    ),
    Fault(
        "rows of an overlap come twice",
        "target",
        "file.take(schema, row)  # the table may have the row already",
        "pass",
        "test_overlap_is_applied_as_upserts",
    ),
    Fault(
        "equal rows become one",
        "target",
        "        if schema.primary_key:\n            file.take",
        "        if True:\n            file.take",
        _MADE,
        _cut("keyless_one_of_equal_rows"),
    ),
    Fault(
        "the default of an added column is ignored",
        "target",
        "[stored(step.default)]",
        "[None]",
        _MADE,
        _cut("add_column_in_transaction"),
    ),
    Fault(
        "a dropped column stays",
        "target",
        'file.run(f"ALTER TABLE rows_ DROP COLUMN {quoted(column.name)}")',
        "pass",
        _MADE,
        _cut("drop_and_add_of_one_name"),
    ),
    Fault(
        "a renamed column is a new one",
        "target",
        'file.run(f"ALTER TABLE rows_ RENAME COLUMN {quoted(old.name)} TO {quoted(new.name)}")',
        'file.run(f"ALTER TABLE rows_ ADD COLUMN {quoted(new.name)}")',
        _MADE,
        _cut("rename_chain"),
    ),
    Fault(
        "TRUNCATE is ignored",
        "target",
        "            case DDLOperation.CREATE_TABLE | DDLOperation.TRUNCATE_TABLE:\n",
        "            case DDLOperation.TRUNCATE_TABLE:\n                pass\n            case DDLOperation.CREATE_TABLE:\n",
        _MADE,
        _cut("truncate_alone"),
    ),
    Fault(
        "loaded chunks are forgotten",
        "target",
        "return frozenset(file.loaded)",
        "return frozenset()",
        "test_an_interrupted_snapshot_goes_on",
    ),
    Fault(
        "the chunks of a finished snapshot are forgotten",
        "target",
        "self._store(file, progress, schema, file.loaded)",
        "self._store(file, progress, schema, ())",
        "test_a_finished_snapshot_is_not_loaded_again",
    ),
    Fault(
        "a new copy keeps the old rows",
        "target",
        "            file.create(schema)\n            progress = self._progress(position)\n",
        "            file.progress or file.create(schema)\n            progress = self._progress(position)\n",
        "test_another_plan_starts_from_scratch",
    ),
    Fault(
        "a renamed table keeps its former position",
        "target",
        "self._store(file, replace(file.progress, position=event.position), event.schema)",
        "self._store(file, file.progress, event.schema)",
        _RENAMED,
        {"name": "chain"},
    ),
    Fault(
        "a rename leaves the table of the former name",
        "target",
        "former.rename(new)",
        "new.write_bytes(former.read_bytes())",
        _RENAMED,
        {"name": "exchange"},
    ),
    Fault(
        "a rename that comes again looks for the former table",
        "target",
        "        if former.exists():\n            self._move(former, new, event)\n",
        "        self._move(former, new, event)\n",
        _RENAMED,
        {"name": "former name"},
    ),
    Fault(
        "the position of a rename is stored before the table has its new name",
        "target",
        "        if former.exists():\n            self._move(former, new, event)\n",
        "        if former.exists():\n"
        "            if self.progress(event.prev_table).position == event.position:\n                return\n"
        "            with self._open(event.prev_table) as file:\n"
        "                self._store(file, replace(file.progress, position=event.position), file.schema)\n"
        "            self._move(former, new, event)\n",
        "test_an_interrupted_rename_is_finished",
    ),
    Fault(
        "a renamed table takes the place of another",
        "target",
        "        if new.exists():\n            raise _not_renamed(event)\n        former",
        "        former",
        "test_a_rename_to_a_name_in_use_changes_nothing",
    ),
    Fault(
        "a rename of a missing table makes an empty one",
        "target",
        "        if not new.exists():\n            raise _not_renamed(event)\n",
        "        if not new.exists():\n            self.begin_snapshot(event.schema, 'empty', event.position)\n",
        "test_a_rename_of_a_missing_table_makes_none",
    ),
    Fault(
        "an older run renames the table",
        "target",
        "        with self._open(event.prev_table) as file:\n            file.check(self._context.epoch)\n",
        "",
        "test_a_lower_epoch_renames_nothing",
    ),
    Fault(
        "a database is created only once",
        "databases",
        "        if not place.exists():\n            mark.touch()\n            place.mkdir()\n",
        "        mark.touch()\n        place.mkdir()\n",
        _DATABASES,
    ),
    Fault(
        "DROP_DATABASE is ignored",
        "databases",
        "    elif mark.exists() and",
        "    elif False and",
        _DATABASES,
    ),
    Fault(
        "DROP_DATABASE of a database that is gone is an error",
        "databases",
        "    elif mark.exists() and not (place.exists() and any(place.iterdir())):\n        if place.exists():\n",
        "    elif not (place.exists() and any(place.iterdir())):\n        if True:\n",
        _DATABASES,
    ),
    Fault(
        "a dropped database is forgotten before it is dropped",
        "databases",
        "        if place.exists():\n            place.rmdir()\n        mark.unlink()\n",
        "        mark.unlink()\n        if place.exists():\n            place.rmdir()\n",
        "test_an_interrupted_change_of_a_database_is_finished",
        {"operation": DDLOperation.DROP_DATABASE},
    ),
    Fault(
        "a database is dropped with its tables",
        "databases",
        _DROPPED,
        "    elif mark.exists():\n        for file in place.glob('*.db'):\n            file.unlink()\n" + _GONE,
        "test_a_database_with_a_table_stays",
    ),
    Fault(
        "a database is dropped with the tables of others",
        "databases",
        _DROPPED,
        "    elif mark.exists():\n        for file in place.glob('foreign.db'):\n            file.unlink()\n" + _GONE,
        "test_a_database_with_a_table_of_another_program_stays",
    ),
    Fault(
        "an empty database of another program is dropped",
        "databases",
        "        if not place.exists():\n            mark.touch()\n            place.mkdir()\n",
        "        mark.touch()\n        place.mkdir(exist_ok=True)\n",
        "test_a_database_of_another_program_stays",
    ),
    Fault(
        "maintenance makes equal rows one",
        "table",
        "AS SELECT * FROM rows_ ORDER BY _identity",
        "AS SELECT DISTINCT * FROM rows_ ORDER BY _identity",
        _MAINTAINED,
    ),
    Fault(
        "a task of maintenance never ends",
        "maintenance",
        "MaintenanceReport(is_finished=not file.sort())",
        "MaintenanceReport(is_finished=file.sort())",
        _MAINTAINED,
    ),
    Fault(
        "maintenance forgets the sequence number",
        "target",
        "            return compact(file, lambda: context.is_stopping)\n",
        "            file.store(context.epoch, replace(file.progress, last_sequence=0), file.schema, file.loaded)\n"
        "            return compact(file, lambda: context.is_stopping)\n",
        _MAINTAINED,
    ),
    Fault(
        "maintenance removes rows in one commit and puts them back in another",
        "table",
        '        self.create(self.schema)\n        self._connection.execute("INSERT',
        "        self.create(self.schema)\n"
        "        self.run('COMMIT')\n        self.run('BEGIN IMMEDIATE')\n"
        '        self._connection.execute("INSERT',
        "test_an_interrupted_step_of_maintenance_does_no_harm",
    ),
    Fault(
        "an older run maintains the table",
        "target",
        "            file.check(context.epoch)\n            return compact",
        "            return compact",
        "test_a_step_of_an_older_run_is_fenced",
    ),
    Fault(
        "an error does not say which table it is about",
        "target",
        "            naming_table(table),\n",
        "",
        "test_a_table_that_no_replicator_wrote_is_refused",
    ),
    Fault(
        "a step of maintenance waits until the run no longer is to stop",
        "maintenance",
        "    before = file.unused_pages()\n",
        "    for _ in range(60):\n        __import__('time').sleep(0.1 if is_stopping() else 0)\n"
        "    before = file.unused_pages()\n",
        "test_a_step_ends_when_the_run_is_to_stop",
    ),
    Fault(
        "maintenance makes a file for a table that is not there",
        "target",
        "        if not path.exists():\n            return MaintenanceReport()\n        with transaction(path, "
        "context.read_offset, owner_of(context)) as file:\n",
        "        with transaction(path, context.read_offset, owner_of(context)) as file:\n",
        "test_maintenance_of_a_missing_table_makes_none",
    ),
    Fault(
        "maintenance of a table puts back the others as they were before it",
        "target",
        "        with transaction(path, context.read_offset, owner_of(context)) as file:\n            file.check",
        "        others = {p: p.read_bytes() for p in self.config.folder.rglob('*.db') if p != path}\n"
        "        __import__('time').sleep(0.3)\n"
        "        for other, content in others.items():\n            other.write_bytes(content)\n"
        "        with transaction(path, context.read_offset, owner_of(context)) as file:\n            file.check",
        "test_a_table_is_maintained_beside_applies_of_another",
    ),
    Fault(
        "what a table consists of is said when it is made, and not after its changes",
        "target",
        "        if (path := self.path(table)).exists():\n",
        "        if (path := self.path(table)).exists() and not path.with_suffix('.said').exists():\n"
        "            path.with_suffix('.said').touch()\n",
        "test_what_is_said_of_a_tables_storage_holds",
    ),
    Fault(
        "a table with rows is said to have no files",
        "target",
        "TableStorage(files=1, nbytes=path.stat().st_size)",
        "TableStorage(files=0, nbytes=path.stat().st_size)",
        "test_what_is_said_of_a_tables_storage_holds",
    ),
    Fault(
        "the sequence number is not stored",
        "target",
        _STORED,
        _STORED.replace("TableProgress.of(changes.identity)", "replace(TableProgress.of(changes.identity), batch='')"),
        "test_progress_is_kept_with_the_data",
    ),
)
"""In the target of `tests/sdk/strangers/sqlite_files`."""

IN_CHANGE_FILES = (
    Fault(
        "the key before a move is left out",
        "reader",
        'typed_row(schema, line["before"]) if line.get("before") else None',
        'typed_row(schema, line["before"]) if line["op"] == "DELETE" else None',
        _EMITTED,
        _case("key_swap"),
    ),
    Fault(
        "deletes are left out",
        "reader",
        'if line["table"] in self._schemas:',
        'if line["table"] in self._schemas and line.get("op") != "DELETE":',
        _EMITTED,
        _case("insert_and_delete"),
    ),
    Fault(
        "TRUNCATE is left out",
        "reader",
        "self._emitter.emit(DDLEvent(self._offset, DDLOperation.TRUNCATE_TABLE, old.table, old))",
        "pass",
        _EMITTED,
        _case("truncate_alone"),
    ),
    Fault(
        "RETYPE is left out",
        "reader",
        "            if steps:\n",
        '            if any(step.kind != "RETYPE_COLUMN" for step in steps):\n',
        _EMITTED,
        _case("retype_wider"),
    ),
    Fault(
        "CHANGE_KEY is left out",
        "reader",
        "            if steps:\n",
        '            if any(step.kind != "CHANGE_KEY" for step in steps):\n',
        _EMITTED,
        _case("change_key"),
    ),
    Fault(
        "the default of an added column is left out",
        "reader",
        "defaults=defaults",
        "defaults={}",
        _EMITTED,
        _case("add_column_in_transaction"),
    ),
    Fault(
        "a renamed column is dropped and added",
        "reader",
        "alter_steps(old, new, names,",
        "alter_steps(old, new, {n: n for n in new.names if n in old},",
        _EMITTED,
        _case("rename_swap_at_once"),
    ),
    Fault(
        "rows of a renamed table are left out",
        "reader",
        "            self._schemas[renames[former]] = new\n",
        "            self._schemas[former] = old\n",
        _FOLLOWED,
        {"name": "chain"},
    ),
    Fault(
        "tables that exchange their names are not renamed",
        "reader",
        "        for former, old in moved.items():\n",
        "        for former, old in moved.items() if set(renames) != set(renames.values()) else ():\n",
        _FOLLOWED,
        {"name": "exchange"},
    ),
    Fault(
        "a renamed table is emitted with its former name alone",
        "reader",
        "DDLOperation.RENAME_TABLE, new.table, new, old.table)",
        "DDLOperation.RENAME_TABLE, old.table, old, old.table)",
        _FOLLOWED,
        {"name": "at once"},
    ),
    Fault(
        "a lost log is no error",
        "reader",
        "if missing or self._offset.number > last:",
        "if False:",
        "test_lost_history_is_an_error",
    ),
    Fault(
        "a restart leaves out a transaction",
        "reader",
        "        return self._offset\n",
        "        if offset is not None:\n            self._offset = NumberOffset(min(last, offset.number + 1))\n"
        "        return offset or self._offset\n",
        "test_every_emitted_offset_resumes",
        _case("seed_transactions"),
    ),
    Fault(
        "a column that was not selected is taken when it is added",
        "reader",
        'if line["table"] in self._narrowed:',
        "if False:",
        "test_only_selected_columns_are_emitted",
    ),
    Fault(
        "a snapshot has later rows than its position says",
        "snapshot",
        "self.schema, self.position = schema, NumberOffset(last)",
        "self.schema, self.position = schema, NumberOffset(last - 1)",
        "test_snapshot_and_log_fit_together",
    ),
    Fault(
        "a snapshot leaves out a chunk",
        "snapshot",
        "for i in range(CHUNKS))",
        "for i in range(CHUNKS - 1))",
        "test_chunks_together_are_the_table",
    ),
    Fault(
        "the identity is another one for each instance",
        "source",
        "str(self.config.folder.resolve())",
        "str(id(self))",
        "test_identity_lasts",
    ),
    Fault(
        "`health` says that nothing waits",
        "source",
        "last - offset.number if",
        "0 if",
        "test_a_source_that_can_be_asked_says_what_waits",
    ),
)
"""In the source of `tests/sdk/strangers/change_files`, which emits row by row."""

IN_DIARY = (
    Fault(
        "`before_is_full` is left out",
        "diary",
        "        before_is_full=True,\n",
        "",
        _EMITTED,
        _case("seed_without_primary_key"),
    ),
    Fault(
        "ordinals count only selected tables",
        "diary",
        "                ordinal += 1\n",
        "                    ordinal += 1\n",
        "test_ordinals_count_the_changes_of_all_tables",
    ),
    Fault(
        "ordinals have gaps",
        "diary",
        "                ordinal += 1\n",
        "                ordinal += 2\n",
        "test_ordinals_count_the_changes_of_all_tables",
    ),
    Fault(
        "commit times are milliseconds",
        "diary",
        "np.full(len(ends), -1, np.int64)",
        'np.full(len(ends), int(__import__("time").time() * 1_000), np.int64)',
        "test_commit_times_are_microseconds",
    ),
    Fault(
        "commit times are nanoseconds",
        "diary",
        "np.full(len(ends), -1, np.int64)",
        'np.full(len(ends), __import__("time").time_ns(), np.int64)',
        "test_commit_times_are_microseconds",
    ),
    Fault(
        "offsets begin again in each window",
        "diary",
        "first = self.offset.number + 1",
        "first = 1",
        "test_offsets_survive_their_stored_form",
    ),
)
"""In the source of `docs/writing-a-plugin.md`, which emits columns."""
