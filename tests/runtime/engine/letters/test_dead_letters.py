"""The target has the source's rows but for those put aside, whatever histories, batches, failures and restarts there are."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from replicator_runtime.config.model import DeadLettersConfig
from replicator_runtime.dead_letter import Key, Letter
from replicator_runtime.engine.letters.dead_letters import DeadLetters
from replicator_runtime.engine.letters.letter_file import newest
from replicator_runtime.engine.rewind.plan import _refuse_letters
from replicator_runtime.engine.verification.comparable import refuse_letters
from replicator_sdk import (
    BatchIdentity,
    ChangeBatch,
    Column,
    DDLEvent,
    DDLOperation,
    DeferredConsumer,
    DMLOperation,
    Position,
    Refusal,
    TableChanges,
    TableId,
    TableSchema,
)
from replicator_sdk.datatype import INT64, STRING
from replicator_sdk.errors import DataError, NeedsUserError, SnapshotNeededError
from replicator_sdk.testing.contexts import CountingMetrics, TestTargetContext
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from replicator_sdk.testing.in_memory.target import MemoryConsumer, MemoryStore
from replicator_state import ReplicatorDirectory

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from replicator_state import LaneFolder

T = TableSchema(
    TableId("shop", "customer"),
    (
        Column("id", INT64, nullable=False),
        Column("note", STRING),
        Column("large", STRING),
        Column("must", INT64, nullable=False),
    ),
    ("id",),
)
KEYLESS = TableSchema(TableId("shop", "bag"), T.columns, ())
COPY = "0c"


@dataclass(frozen=True)
class Change:
    """One change, a transaction of its own."""

    op: DMLOperation
    key: int
    old_key: int | None = None
    note: str | None = None
    large: str | None = None
    is_bad: bool = False
    is_partial: bool = False


@dataclass
class Config:
    """As much of the pipeline's settings as letters need."""

    on_data_error: str = "lane"
    dead_letters: DeadLettersConfig = field(default_factory=DeadLettersConfig)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[LaneFolder]:
    directory = ReplicatorDirectory(str(tmp_path), "default", "shop")
    lease = directory.acquire("r")
    yield directory.dead_letters(lease)
    lease.release()


class Target(MemoryConsumer):
    """A target that fails before or after a commit, as `fails` says, and refuses the value `refuses`."""

    fails = ""
    refuses = ""

    def apply_batch(self, changes: TableChanges) -> None:
        if self.fails == "before":
            raise ConnectionError
        if any(self.refuses and self.refuses in _notes(batch) for batch in changes.batches()):
            raise DataError("a value does not fit", code="RPL-5402")
        super().apply_batch(changes)
        if self.fails == "after":
            raise ConnectionError

    def find_refused(self, batch: ChangeBatch) -> Mapping[str, Refusal]:
        mask = [self.refuses == note for note in _notes(batch)]
        return {"note": Refusal(pa.array(mask), "RPL-5402", "a value does not fit")} if any(mask) else {}


def _notes(batch: ChangeBatch) -> list[str | None]:
    return [
        None if op == DMLOperation.DELETE else note
        for op, note in zip(batch.op.to_pylist(), batch.row.field("note").to_pylist(), strict=True)
    ]


class LateTarget(Target, DeferredConsumer):
    """A target that commits when it is asked to; what it has taken until then is lost with it."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store, TestTargetContext(MemoryOffset.from_fields))
        self._taken: list[TableChanges] = []
        self._settled: Position | None = None

    def apply_batch(self, changes: TableChanges) -> None:
        self._taken.append(changes)

    def settled(self, table: TableId) -> Position | None:
        return self._settled

    def settle(self, tables: Collection[TableId]) -> None:
        for changes in self._taken:
            super().apply_batch(changes)
            self._settled = changes.identity.position
        self._taken.clear()


def target(store: MemoryStore) -> Target:
    return Target(store, TestTargetContext(MemoryOffset.from_fields))


def opened(folder: LaneFolder, epoch: int = 1, **settings: Any) -> DeadLetters:
    config: Any = Config(**settings)
    return DeadLetters(folder, config, epoch, MemoryOffset.from_fields, lambda _: COPY, CountingMetrics())


def at(number: int) -> Position:
    return Position(MemoryOffset(number))


def changes_of(log: list[Change], first: int, last: int, schema: TableSchema = T, **more: Any) -> TableChanges:
    """The changes after `first` up to `last`, in batches of a few."""
    parts = [batch_of(log[i : min(i + 3, last)], i + 1, schema) for i in range(first, last, 3)]
    identity = BatchIdentity(1, 1, first + 1, last, at(last))
    return TableChanges(schema, identity, parts, rows=last - first, nbytes=64, **more)


def batch_of(found: list[Change], first: int, schema: TableSchema = T) -> ChangeBatch:
    rows = [
        {"id": c.key, "note": None if c.is_bad else c.note, "large": None if c.is_partial else c.large, "must": 1}
        for c in found
    ]
    before: list[Any] = [
        {"id": c.key if c.old_key is None else c.old_key, "note": None, "large": None, "must": None}
        if c.old_key is not None or c.op is DMLOperation.DELETE
        else None
        for c in found
    ]
    partial, bad = [c.is_partial for c in found], [c.is_bad for c in found]
    numbers = np.arange(first, first + len(found), dtype=np.int64)
    return ChangeBatch(
        schema,
        pa.array([int(c.op) for c in found], pa.int8()),
        pa.array(rows, schema.struct),
        pa.array(before, schema.struct) if any(before) else None,
        numbers,
        {"large": pa.array(partial)} if any(partial) else {},
        sequence_numbers=numbers,
        refused={"note": Refusal(pa.array(bad), "RPL-3010", "column 'note' holds NaN")} if any(bad) else {},
    )


class Source:
    """What the source has, and by the rules which of it is put aside; row by row."""

    def __init__(self) -> None:
        self.rows: dict[int, Change] = {}
        self.aside: set[int] = set()

    def take(self, change: Change) -> None:
        old = change.key if change.old_key is None else change.old_key
        was_aside = old in self.aside
        self.aside.discard(old)
        former = self.rows.pop(old, None)
        if change.op is DMLOperation.DELETE:
            return
        if change.is_partial:
            assert former is not None
            change = replace(change, large=former.large)
        self.rows[change.key] = change
        if change.is_bad or (change.is_partial and was_aside):
            self.aside.add(change.key)

    @property
    def copied(self) -> dict[int, tuple[str | None, str | None]]:
        return {key: (c.note, c.large) for key, c in self.rows.items() if key not in self.aside}

    def random_change(self, chance: random.Random, number: int) -> Change:
        """A change that the source may make."""
        note, large = f"n{number}", f"l{number}"
        bad = chance.random() < 0.3
        if not self.rows or (len(self.rows) < 8 and chance.random() < 0.4):
            free = [key for key in range(9) if key not in self.rows]
            return Change(DMLOperation.INSERT, chance.choice(free), note=note, large=large, is_bad=bad)
        key = chance.choice(list(self.rows))
        if chance.random() < 0.2:
            return Change(DMLOperation.DELETE, key)
        partial = chance.random() < 0.4
        free = [other for other in range(9) if other not in self.rows]
        if free and chance.random() < 0.2:
            new = chance.choice(free)
            return Change(DMLOperation.UPDATE, new, key, note, large, bad, partial)
        return Change(DMLOperation.UPDATE, key, None, note, large, bad, partial)


def rows_of(store: MemoryStore) -> dict[int, tuple[Any, Any]]:
    found = store.rows(T.table)
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: (row["note"], row["large"]) for row in found}


def keys_of(folder: LaneFolder, letters: DeadLetters) -> set[int]:
    version = newest(letters._known(COPY))
    return set() if version is None else {int(str(key[0])) for key in version.letters}


@pytest.mark.parametrize("seed", range(60))
def test_random_histories_with_failures_and_restarts_leave_all_rows_but_those_aside(
    seed: int, folder: LaneFolder
) -> None:
    chance, source, store, log = random.Random(seed), Source(), MemoryStore(), list[Change]()
    consumer, letters, done, epoch = target(store), opened(folder), 0, 1
    while len(log) < 60:
        new = []
        for _ in range(chance.randint(1, 8)):
            change = source.random_change(chance, len(log))
            log.append(change)
            source.take(change)
            new.append(change)
        while done < len(log):
            until = chance.randint(done + 1, len(log))
            consumer.fails = chance.choice(["", "", "before", "after"])
            try:
                letters.apply(consumer, changes_of(log, done, until))
            except ConnectionError:
                if chance.random() < 0.5:  # the process ends
                    epoch += 1
                    letters = opened(folder, epoch)
            progress = consumer.progress(T.table)
            done = 0 if progress is None else progress.position.offset.transaction  # type: ignore[attr-defined]
        assert rows_of(store) == source.copied
        valid = newest(letters._known(COPY), at(done))
        assert (set() if valid is None else {int(str(k[0])) for k in valid.letters}) == source.aside
    assert len(folder.names()) <= 3


@pytest.mark.parametrize("seed", range(12))
def test_random_histories_at_a_target_that_commits_later_leave_all_rows_but_those_aside(
    seed: int, folder: LaneFolder
) -> None:
    """What it has taken and not committed has letters, too, which the next changes go on from."""
    chance, source, store, log = random.Random(seed), Source(), MemoryStore(), list[Change]()
    consumer, letters, done, epoch = LateTarget(store), opened(folder), 0, 1
    while len(log) < 60:
        for _ in range(chance.randint(1, 8)):
            log.append(source.random_change(chance, len(log)))
            source.take(log[-1])
        while done < len(log):
            until = chance.randint(done + 1, len(log))
            letters.apply(consumer, changes_of(log, done, until))
            done = until
            if chance.random() < 0.2:  # the process ends
                epoch += 1
                consumer, letters = LateTarget(store), opened(folder, epoch)
                progress = consumer.progress(T.table)
                done = 0 if progress is None else progress.position.offset.transaction  # type: ignore[attr-defined]
        consumer.settle([T.table])
        assert rows_of(store) == source.copied
        valid = newest(letters._known(COPY), at(done))
        assert (set() if valid is None else {int(str(k[0])) for k in valid.letters}) == source.aside


def test_twin_without_the_position_of_the_target_takes_letters_that_were_never_true(folder: LaneFolder) -> None:
    """The newest file is not the valid one after a commit that failed: the row it has aside is whole in the target's version."""
    store = MemoryStore()
    consumer, letters = target(store), opened(folder)
    log = [Change(DMLOperation.INSERT, 1, note="a"), Change(DMLOperation.UPDATE, 1, note="b", is_bad=True)]
    letters.apply(consumer, changes_of(log, 0, 1))
    consumer.fails = "before"
    with pytest.raises(ConnectionError):
        letters.apply(consumer, changes_of(log, 1, 2))
    again = opened(folder, 2)
    assert newest(again._known(COPY), at(1)) is None
    assert keys_of(folder, again) == {1}


def test_a_value_that_only_the_target_refuses_is_put_aside_or_null(folder: LaneFolder) -> None:
    log = [Change(DMLOperation.INSERT, 1, note="good"), Change(DMLOperation.INSERT, 2, note="bad")]
    for policy, expected in (("lane", {1: ("good", None)}), ("null", {1: ("good", None), 2: (None, None)})):
        store = MemoryStore()
        consumer, letters = target(store), opened(folder, on_data_error=policy)
        consumer.refuses = "bad"
        letters.apply(consumer, changes_of(log, 0, 2))
        assert rows_of(store) == expected


def test_an_error_that_names_no_row_stops_the_table(folder: LaneFolder) -> None:
    consumer, letters = target(MemoryStore()), opened(folder)
    log = [Change(DMLOperation.INSERT, 1, note="good")]

    class Mute(Target):
        def apply_batch(self, changes: TableChanges) -> None:
            raise DataError("some value", code="RPL-5402")

    mute = Mute(consumer._store, consumer._context)
    with pytest.raises(DataError, match="RPL-5402"):
        letters.apply(mute, changes_of(log, 0, 1))


def test_refused_values_become_null_only_where_a_column_may_be_null(folder: LaneFolder) -> None:
    store, log = MemoryStore(), [Change(DMLOperation.INSERT, 1, note="x", large="l", is_bad=True)]
    letters = opened(folder, on_data_error="null")
    letters.apply(target(store), changes_of(log, 0, 1))
    assert rows_of(store) == {1: (None, "l")}
    changes = changes_of(log, 0, 1)
    [batch] = changes.batches()
    marked = replace(batch, refused={"must": batch.refused["note"]})
    with pytest.raises(DataError, match="RPL-3010"):
        letters.apply(target(MemoryStore()), changes.with_batches(lambda: iter([marked]), rows=1, inserts_only=True))
    assert folder.names() == []


def test_more_rows_than_the_bound_stop_the_table_and_change_nothing(folder: LaneFolder) -> None:
    store = MemoryStore()
    consumer, letters = target(store), opened(folder, dead_letters=DeadLettersConfig(max_rows=2))
    log = [Change(DMLOperation.INSERT, n, note="x", is_bad=True) for n in range(1, 5)]
    letters.apply(consumer, changes_of(log, 0, 2))
    names = folder.names()
    with pytest.raises(DataError, match="RPL-5050") as error:
        letters.apply(consumer, changes_of(log, 2, 4))
    assert "x" not in error.value.message.split()
    assert folder.names() == names
    assert consumer.progress(T.table).position == at(2)  # type: ignore[union-attr]


def test_rows_without_a_key_stop_the_table(folder: LaneFolder) -> None:
    log = [Change(DMLOperation.INSERT, 1, note="x", is_bad=True)]
    with pytest.raises(DataError, match="RPL-3010"):
        opened(folder).apply(target(MemoryStore()), changes_of(log, 0, 1, KEYLESS))


def test_a_truncate_leaves_no_letters(folder: LaneFolder) -> None:
    store = MemoryStore()
    consumer, letters = target(store), opened(folder)
    log = [Change(DMLOperation.INSERT, 1, note="x", is_bad=True), Change(DMLOperation.INSERT, 1, note="y")]
    letters.apply(consumer, changes_of(log, 0, 1))
    position = Position(MemoryOffset(1), 1)
    event = DDLEvent(MemoryOffset(1), DDLOperation.TRUNCATE_TABLE, T.table, T, position=position)
    letters.truncate(consumer, event)
    assert keys_of(folder, opened(folder, 2)) == set()
    consumer.apply_ddl(event)
    letters.apply(consumer, changes_of(log, 1, 2))
    assert rows_of(store) == {1: ("y", None)}
    assert folder.names() == []


def test_letters_that_are_there_are_followed_also_under_fail(folder: LaneFolder) -> None:
    """Else an update without all columns would stop the table for a row that is known to be aside."""
    store = MemoryStore()
    consumer = target(store)
    log = [
        Change(DMLOperation.INSERT, 1, note="x", large="l", is_bad=True),
        Change(DMLOperation.UPDATE, 1, note="y", is_partial=True),
    ]
    opened(folder).apply(consumer, changes_of(log, 0, 1))
    letters = opened(folder, 2, on_data_error="fail")
    letters.apply(consumer, changes_of(log, 1, 2))
    assert rows_of(store) == {}
    version = newest(letters._known(COPY))
    assert version is not None
    [letter] = version.letters.values()
    assert (letter.changes, letter.columns, letter.code) == (2, ("large",), "RPL-3010")


@pytest.mark.parametrize("seed", range(40))
def test_after_a_copy_in_parts_of_several_positions_the_log_leaves_all_rows_but_those_aside(
    seed: int, folder: LaneFolder
) -> None:
    """Rows that a chunk read late may have been moved, refused and whole again before; the log repeats all of that."""
    chance, source, store, log = random.Random(seed), Source(), MemoryStore(), list[Change]()
    read_at = [chance.randint(20, 40) for _ in range(3)]  # the keys 0 to 2, 3 to 5 and 6 to 8
    loaded: list[dict[str, Any]] = []
    aside: dict[Key, Letter] = {}
    for number in range(60):
        for part, place in enumerate(read_at):
            if place == number:
                keys = [key for key in source.rows if key // 3 == part]
                refused = {key for key in keys if source.rows[key].is_bad}
                loaded += [_row(source.rows[key]) for key in keys if key not in refused]
                aside |= {
                    (str(k),): Letter((str(k),), "COPY", ("note",), "RPL-1", "", "", 0, -1, 1, "{}") for k in refused
                }
        change = source.random_change(chance, number)
        if change.old_key is not None:
            change = replace(change, is_partial=False)  # in an overlap targets have the table copied again
        log.append(change)
        source.take(change)
    consumer, letters = target(store), opened(folder)
    consumer.begin_snapshot(T, COPY, at(20))
    store.reference.tables[T.table].rows.extend(loaded)
    letters.keep_of_copy(T, COPY, at(20), aside)
    consumer.finish_snapshot(T, COPY, at(20))
    done = 20
    while done < len(log):
        until = min(len(log), done + chance.randint(1, 9))
        letters.apply(consumer, changes_of(log, done, until, overlap=done < 41, drops_lost_updates=done < 41))
        done = until
    open_keys, rows = keys_of(folder, letters), rows_of(store)
    assert rows == {key: (c.note, c.large) for key, c in source.rows.items() if key not in open_keys}
    assert {key for key, c in source.rows.items() if c.is_bad} <= open_keys <= source.rows.keys()


def _row(change: Change) -> dict[str, Any]:
    return {"id": change.key, "note": change.note, "large": change.large, "must": 1}


def test_a_damaged_file_has_the_table_copied_again(folder: LaneFolder) -> None:
    log = [Change(DMLOperation.INSERT, 1, note="x", is_bad=True)]
    opened(folder).apply(target(MemoryStore()), changes_of(log, 0, 1))
    [name] = folder.names()
    content = folder.read(name)
    folder.remove([name])
    folder.create(name, content[: len(content) // 2])
    with pytest.raises(SnapshotNeededError, match="RPL-4140"):
        opened(folder, 2).open_rows(COPY)


def test_files_of_copies_that_no_table_has_are_deleted(folder: LaneFolder) -> None:
    log = [Change(DMLOperation.INSERT, 1, note="x", is_bad=True)]
    letters = opened(folder)
    letters.apply(target(MemoryStore()), changes_of(log, 0, 1))
    letters.forget_others({COPY})
    assert len(folder.names()) == 1
    letters.forget_others({"0d"})
    assert folder.names() == []
    assert letters.open_rows(COPY) == 0


def test_a_table_with_rows_aside_is_not_rewound(folder: LaneFolder) -> None:
    """Which rows were aside at an earlier position is not kept."""
    letters = opened(folder)
    run, record = SimpleNamespace(letters=letters), SimpleNamespace(copy_id=COPY, table=T.table)
    _refuse_letters(run, record)  # type: ignore[arg-type]
    letters.apply(target(MemoryStore()), changes_of([Change(DMLOperation.INSERT, 1, note="x", is_bad=True)], 0, 1))
    with pytest.raises(NeedsUserError, match="RPL-1285"):
        _refuse_letters(run, record)  # type: ignore[arg-type]


@pytest.mark.parametrize("overlap", [False, True])
def test_a_row_comes_back_by_an_update_that_lacks_only_a_column_that_the_target_has_kept(
    folder: LaneFolder, overlap: bool
) -> None:
    """Also where the target drops updates of rows that it does not have: it has kept rows, too."""
    store, config = MemoryStore(), Config()
    letters = DeadLetters(
        folder,
        config,  # type: ignore[arg-type]
        1,
        MemoryOffset.from_fields,
        lambda _: COPY,
        CountingMetrics(),
        lambda _: frozenset({"large"}),
    )
    log = [
        Change(DMLOperation.INSERT, 1, note="a", large="kept"),
        Change(DMLOperation.INSERT, 2, note="a", large="kept"),
        Change(DMLOperation.UPDATE, 1, note="b", is_bad=True, is_partial=True),
        Change(DMLOperation.UPDATE, 1, note="c", is_partial=True),
        Change(DMLOperation.UPDATE, 2, note="c", is_partial=True),
    ]
    for last in (2, 3, 5):
        first = {2: 0, 3: 2, 5: 3}[last]
        changes = changes_of(log, first, last, overlap=overlap, drops_lost_updates=overlap)
        letters.apply(target(store), changes)
    assert rows_of(store) == {1: ("c", None), 2: ("c", "kept")}
    assert keys_of(folder, letters) == set()


def test_a_renamed_table_with_rows_aside_is_not_compared(folder: LaneFolder) -> None:
    """The file has the table's name of before: a repair would write a row that has a letter, and its next change would double it."""
    letters = opened(folder)
    renamed: Any = SimpleNamespace(copy_id=COPY, table=TableId("shop", "client"))
    refuse_letters(folder, renamed)
    letters.apply(target(MemoryStore()), changes_of([Change(DMLOperation.INSERT, 1, note="x", is_bad=True)], 0, 1))
    with pytest.raises(NeedsUserError, match="RPL-1288"):
        refuse_letters(folder, renamed)
    refuse_letters(folder, SimpleNamespace(copy_id="0d", table=T.table))  # type: ignore[arg-type]
