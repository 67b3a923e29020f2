"""The kit is worth its name: for each promise there is a plugin that breaks it, and the kit fails it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from replicator_sdk import Commits, DDLEvent, DMLOperation, Position, TableChanges, TableProgress, TableSchema
from replicator_sdk.testing.ddl_positions import HISTORIES
from replicator_sdk.testing.faults import FailAfterWrite
from replicator_sdk.testing.histories import reference
from replicator_sdk.testing.histories.batches import from_batch, to_batch
from replicator_sdk.testing.histories.history import History, load_case
from replicator_sdk.testing.histories.reference import Change, ReferenceTable, RowChange
from replicator_sdk.testing.histories.values import comparable_key
from replicator_sdk.testing.in_memory import source as memory_source
from replicator_sdk.testing.in_memory import target as memory
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from replicator_sdk.testing.in_memory.source import MemoryReader, MemorySnapshotReader
from replicator_sdk.testing.in_memory.target import MemoryConsumer
from tests.sdk.testing.heartbeats import spread_offsets
from tests.sdk.testing.in_memory.test_source import MemorySystem as SourceMemory
from tests.sdk.testing.in_memory.test_source import TestMemorySource as SourceKit
from tests.sdk.testing.in_memory.test_target import MemorySystem as TargetMemory
from tests.sdk.testing.in_memory.test_target import TestMemoryTarget as TargetKit

Patch = pytest.MonkeyPatch


def _changes(edit: Callable[[RowChange], RowChange]) -> Callable[[Patch], None]:
    """A target that gets every change a bit wrong."""
    return lambda patch: patch.setattr(memory, "from_batch", lambda batch: [edit(c) for c in from_batch(batch)])


def _forget_moves(change: RowChange) -> RowChange:
    moved = change.operation is DMLOperation.UPDATE and change.before is not None and change.schema.primary_key
    return replace(change, before=None) if moved else change


def _null_for_unchanged(change: RowChange) -> RowChange:
    return replace(change, row={**dict.fromkeys(change.unchanged), **change.row}, unchanged=frozenset())


def _not_atomic(patch: Patch) -> None:
    original = MemoryConsumer.apply_batch

    def apply_batch(self: MemoryConsumer, changes: TableChanges) -> None:
        original(self, changes)
        self._store.progress[changes.table] = TableProgress(1, 1, Position(MemoryOffset(0)))

    patch.setattr(MemoryConsumer, "apply_batch", apply_batch)


def _unfenced(patch: Patch) -> None:
    patch.setattr(MemoryConsumer, "_check_epoch", lambda *_: None)


def _sql_null(patch: Patch) -> None:
    apply, find = ReferenceTable.apply, ReferenceTable.find

    def find_by_equals(table: ReferenceTable, row: Mapping[str, Any]) -> int | None:
        return None if None in comparable_key(table.schema, row) else find(table, row)

    def apply_in_silence(table: ReferenceTable, change: RowChange, *, overlap: bool = False) -> None:
        apply(table, change, overlap=True)

    def broken(self: MemoryConsumer, changes: TableChanges) -> None:
        with pytest.MonkeyPatch.context() as inside:
            inside.setattr(ReferenceTable, "find", find_by_equals)
            inside.setattr(ReferenceTable, "apply", apply_in_silence)
            original(self, changes)

    original = MemoryConsumer.apply_batch
    patch.setattr(MemoryConsumer, "apply_batch", broken)


def _one_of_equal_rows(patch: Patch) -> None:
    original = MemoryConsumer.apply_batch

    def apply_batch(self: MemoryConsumer, changes: TableChanges) -> None:
        original(self, changes)
        table = self._store.reference.tables[changes.table]
        unique = {comparable_key(table.schema, row): row for row in table.rows}
        table.rows[:] = unique.values()

    patch.setattr(MemoryConsumer, "apply_batch", apply_batch)


def _overlap_ignored(patch: Patch) -> None:
    original = MemoryConsumer.apply_batch

    def apply_batch(self: MemoryConsumer, changes: TableChanges) -> None:
        changes.overlap = False
        original(self, changes)

    patch.setattr(MemoryConsumer, "apply_batch", apply_batch)


def _default_forgotten(patch: Patch) -> None:
    original = MemoryConsumer.apply_ddl

    def apply_ddl(self: MemoryConsumer, event: DDLEvent) -> None:
        original(self, replace(event, alters=tuple(replace(a, default=None) for a in event.alters)))

    patch.setattr(MemoryConsumer, "apply_ddl", apply_ddl)


def _chunks_forgotten(patch: Patch) -> None:
    original = MemoryConsumer.begin_snapshot

    def begin(self: MemoryConsumer, schema: TableSchema, snapshot_id: str, position: Position) -> frozenset[int]:
        original(self, schema, snapshot_id, position)
        self._store.chunks[schema.table] = (snapshot_id, set())
        return frozenset()

    patch.setattr(MemoryConsumer, "begin_snapshot", begin)


def _old_rows_kept(patch: Patch) -> None:
    original = MemoryConsumer.begin_snapshot

    def begin(self: MemoryConsumer, schema: TableSchema, snapshot_id: str, position: Position) -> frozenset[int]:
        found = self._store.reference.tables.get(schema.table)
        loaded = original(self, schema, snapshot_id, position)
        if found is not None:
            self._store.reference.tables[schema.table] = found
        return loaded

    patch.setattr(MemoryConsumer, "begin_snapshot", begin)


def _ddl_always_applied(patch: Patch) -> None:
    original = MemoryConsumer.apply_ddl

    def apply_ddl(self: MemoryConsumer, event: DDLEvent) -> None:
        self._store.progress.pop(event.table, None)
        original(self, event)

    patch.setattr(MemoryConsumer, "apply_ddl", apply_ddl)


TARGETS: list[tuple[str, Callable[[Patch], None], Callable[[TargetKit, TargetMemory], None]]] = [
    ("moves", _changes(_forget_moves), lambda k, s: _history(k, s, "key_swap")),
    ("unchanged", _changes(_null_for_unchanged), lambda k, s: _history(k, s, "unchanged_column")),
    (
        "unchanged and moved",
        _changes(_null_for_unchanged),
        lambda k, s: _history(k, s, "unchanged_column_and_key_change"),
    ),
    ("replay", _not_atomic, lambda k, s: _history(k, s, "seed_without_primary_key")),
    ("progress", _not_atomic, lambda k, s: k.test_progress_is_kept_with_the_data(s)),
    ("null keys", _sql_null, lambda k, s: _history(k, s, "null_in_composite_key")),
    ("bags", _one_of_equal_rows, lambda k, s: _history(k, s, "keyless_one_of_equal_rows")),
    ("defaults", _default_forgotten, lambda k, s: _history(k, s, "add_column_in_transaction")),
    (
        "repeated structure",
        _ddl_always_applied,
        lambda k, s: k.test_a_ddl_event_that_comes_again_changes_nothing(s, load_case("add_column")),
    ),
    ("fence", _unfenced, lambda k, s: k.test_a_lower_epoch_is_fenced(s)),
    ("overlap", _overlap_ignored, lambda k, s: k.test_overlap_is_applied_as_upserts(s)),
    ("overlap of snapshots", _overlap_ignored, lambda k, s: k.test_snapshot_and_log_overlap(s)),
    ("resume", _chunks_forgotten, lambda k, s: k.test_an_interrupted_snapshot_goes_on(s)),
    ("new plan", _old_rows_kept, lambda k, s: k.test_another_plan_starts_from_scratch(s)),
    (
        "lost answer",
        _not_atomic,
        lambda k, s: k.test_a_failed_apply_can_be_repeated(s, "seed_without_primary_key", FailAfterWrite()),
    ),
]


def _history(kit: TargetKit, system: TargetMemory, name: str) -> None:
    kit.test_what_is_there_is_what_the_history_makes(system, load_case(name), "first alone")


@pytest.mark.parametrize(("broken", "test"), [t[1:] for t in TARGETS], ids=[t[0] for t in TARGETS])
def test_a_broken_target_fails(
    monkeypatch: Patch, broken: Callable[[Patch], None], test: Callable[[TargetKit, TargetMemory], None]
) -> None:
    test(TargetKit(), TargetMemory())
    broken(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception, KeyError)):
        test(TargetKit(), TargetMemory())


def test_a_target_that_stores_no_owner_fails() -> None:
    """The memory target is one."""

    class Careful(TargetKit):
        refuses_foreign_tables = True

    with pytest.raises(pytest.fail.Exception, match="NeedsUserError"):
        Careful().test_a_table_of_another_replicator_is_refused(TargetMemory())


def _loses_a_change(patch: Patch) -> None:
    original = MemoryReader._take

    def take(self: MemoryReader, held: object, table: object, change: Change, ordinal: int) -> None:
        if not (isinstance(change, RowChange) and change.operation is DMLOperation.DELETE):
            original(self, held, table, change, ordinal)  # type: ignore[arg-type]

    patch.setattr(MemoryReader, "_take", take)


def _resumes_one_late(patch: Patch) -> None:
    original = MemoryReader.initialize

    def initialize(self: MemoryReader, offset: MemoryOffset | None) -> object:
        found = original(self, offset)
        if offset is not None and self._position < len(self._database.log):
            self._position += 1
        return found

    patch.setattr(MemoryReader, "initialize", initialize)


def _position_before_rows(patch: Patch) -> None:
    original = MemorySnapshotReader.open

    def open_(self: MemorySnapshotReader, schema: TableSchema, chunks: Sequence[object] = ()) -> object:
        snapshot = original(self, schema, ())
        assert isinstance(snapshot.position, MemoryOffset)
        snapshot.position = MemoryOffset(snapshot.position.transaction - 1)
        return snapshot

    patch.setattr(MemorySnapshotReader, "open", open_)


def _starts_elsewhere(patch: Patch) -> None:
    patch.setattr(memory_source.MemoryDatabase, "forget_until", lambda *_: None)


def _offsets_repeat(patch: Patch) -> None:
    def commits(ends: object, stamps: object, _: object) -> Commits:
        return Commits(ends, stamps, lambda i: MemoryOffset(1))  # type: ignore[arg-type]

    patch.setattr(memory_source, "Commits", commits)


def _identity_of_the_moment(patch: Patch) -> None:
    numbers = iter(range(100))
    patch.setattr(memory_source.MemorySource, "identity", lambda _: f"i{next(numbers)}")


def _incomplete_rows_before(patch: Patch) -> None:
    patch.setattr(memory_source, "to_batch", lambda *given: replace(to_batch(*given), before_is_full=False))


def _too_many_columns(patch: Patch) -> None:
    patch.setattr(memory_source, "_project", lambda change, _: change)


def _replay_ddl(kit: SourceKit, system: SourceMemory) -> None:
    kit.test_a_ddl_event_has_the_same_position_at_every_replay(system, HISTORIES[0])


def _restart_before_ddl(kit: SourceKit, system: SourceMemory) -> None:
    kit.test_a_ddl_event_is_after_every_offset_that_was_emitted_before_it(system, HISTORIES[0])


SOURCES: list[tuple[str, Callable[[Patch], None], Callable[[SourceKit, SourceMemory], None]]] = [
    (
        "lost",
        _loses_a_change,
        lambda k, s: k.test_what_the_reader_emits_is_what_happened(s, load_case("insert_and_delete")),
    ),
    ("late", _resumes_one_late, lambda k, s: k.test_every_emitted_offset_resumes(s, load_case("seed_transactions"))),
    ("inexact", _position_before_rows, lambda k, s: k.test_snapshot_and_log_fit_together(s)),
    ("history", _starts_elsewhere, lambda k, s: k.test_lost_history_is_an_error(s)),
    ("offsets", _offsets_repeat, lambda k, s: k.test_offsets_survive_their_stored_form(s)),
    ("identity", _identity_of_the_moment, lambda k, s: k.test_identity_lasts(s)),
    ("heartbeats", lambda p: spread_offsets(p, begins=False), _replay_ddl),
    ("snapshots", lambda p: spread_offsets(p, begins=False, heartbeats=False), _replay_ddl),
    ("restart", lambda p: spread_offsets(p, begins=False), _restart_before_ddl),
    (
        "keyless",
        _incomplete_rows_before,
        lambda k, s: k.test_what_the_reader_emits_is_what_happened(s, load_case("seed_without_primary_key")),
    ),
    ("columns", _too_many_columns, lambda k, s: k.test_only_selected_columns_are_emitted(s)),
]


@pytest.mark.parametrize(("broken", "test"), [t[1:] for t in SOURCES], ids=[t[0] for t in SOURCES])
def test_a_broken_source_fails(
    monkeypatch: Patch, broken: Callable[[Patch], None], test: Callable[[SourceKit, SourceMemory], None]
) -> None:
    test(SourceKit(), SourceMemory())
    broken(monkeypatch)
    with pytest.raises((Exception, pytest.fail.Exception)):
        test(SourceKit(), SourceMemory())


@pytest.mark.parametrize("case", HISTORIES, ids=str)
def test_a_source_with_heartbeats_that_marks_where_transactions_begin_passes(monkeypatch: Patch, case: History) -> None:
    spread_offsets(monkeypatch, begins=True)
    SourceKit().test_a_ddl_event_has_the_same_position_at_every_replay(SourceMemory(), case)
    SourceKit().test_a_ddl_event_is_after_every_offset_that_was_emitted_before_it(SourceMemory(), case)


def test_a_change_that_does_not_fit_is_refused_by_the_reference() -> None:
    schema = load_case("seed_transactions").tables["customers"]
    table = ReferenceTable(schema, [{"id": 1, "name": "a"}])
    for change in (
        RowChange(schema, DMLOperation.INSERT, {"id": 1, "name": "b"}),
        RowChange(schema, DMLOperation.UPDATE, {"id": 2, "name": "b"}),
        RowChange(schema, DMLOperation.DELETE, {}, {"id": 2}),
    ):
        with pytest.raises(reference.ReferenceMismatchError):
            table.apply(change)
    assert table.rows == [{"id": 1, "name": "a"}]
