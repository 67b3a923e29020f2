"""The vectorised net change equals what one gets by doing the changes one after another.

The reference (`_Interpreter`) applies changes to a dict, row by row. The target of the net change is simulated in a
dict as well (`_merge`), with the checks a real target relies on: a fresh key is not there, a deleted one is.
"""

from __future__ import annotations

import gc
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replicator_sdk.batch import ChangeBatch
from replicator_sdk.datatype import FLOAT64, INT64, STRING, Array, DataType, Record
from replicator_sdk.errors import BugError, DataError
from replicator_sdk.event import DMLOperation
from replicator_sdk.net_change import NetChanges, NetPlan, keys, net_bag, net_changes
from replicator_sdk.schema import Column, TableId, TableSchema

INSERT, UPDATE, DELETE = DMLOperation.INSERT, DMLOperation.UPDATE, DMLOperation.DELETE
Row = dict[str, Any]
Key = tuple[Any, ...]


@dataclass
class Change:
    """One change of one row, as a `ChangeBatch` carries it."""

    op: DMLOperation
    row: Row | None = None
    before: Row | None = None
    unchanged: frozenset[str] = frozenset()


def make_schema(columns: dict[str, DataType], key: tuple[str, ...] = ()) -> TableSchema:
    return TableSchema(TableId("db", "t"), tuple(Column(n, t) for n, t in columns.items()), key)


def make_batch(schema: TableSchema, changes: list[Change], first: int = 1, *, full: bool = False) -> ChangeBatch:
    """A batch whose numbers and commit times count up from `first`."""
    masks = {n: [n in c.unchanged for c in changes] for n in schema.names}
    before = pa.array([c.before for c in changes], schema.struct)
    numbers = np.arange(first, first + len(changes), dtype=np.int64)
    return ChangeBatch(
        schema,
        pa.array([int(c.op) for c in changes], pa.int8()),
        pa.array([c.row or dict.fromkeys(schema.names) for c in changes], schema.struct),
        None if before.null_count == len(changes) else before,
        numbers - first,
        {n: pa.array(m) for n, m in masks.items() if any(m)},
        full,
        sequence_numbers=numbers,
        timestamps=numbers * 10,
    )


def cut(schema: TableSchema, changes: list[Change], lengths: list[int], *, full: bool = False) -> list[ChangeBatch]:
    """`changes` in batches of the given lengths, the rest in one more."""
    batches, start = [], 0
    for length in [*lengths, len(changes)]:
        if part := changes[start : start + length]:
            batches.append(make_batch(schema, part, start + 1, full=full))
        start += length
    return batches


@dataclass
class _Interpreter:
    """A table with a key, changed one row after another; notes the changes it makes."""

    key: tuple[str, ...]
    rows: dict[Key, Row]
    changes: list[Change] = field(default_factory=list)

    def insert(self, row: Row) -> None:
        assert self.key_of(row) not in self.rows
        self.rows[self.key_of(row)] = row
        self.changes.append(Change(INSERT, row))

    def update(self, key: Key, new: Row, unchanged: frozenset[str], *, carry_key: bool) -> None:
        old = self.rows.pop(key)
        assert self.key_of(new) not in self.rows
        new = new | {name: old[name] for name in unchanged}
        self.rows[self.key_of(new)] = new
        with_key = carry_key or self.key_of(new) != key
        sent = new | dict.fromkeys(unchanged)
        before = dict(zip(self.key, key, strict=True)) if with_key else None
        self.changes.append(Change(UPDATE, sent, before, unchanged))

    def delete(self, key: Key) -> None:
        del self.rows[key]
        self.changes.append(Change(DELETE, None, dict(zip(self.key, key, strict=True))))

    def key_of(self, row: Row) -> Key:
        return tuple(row[name] for name in self.key)


def _merge(target: dict[Key, Row], net: NetChanges, key: tuple[str, ...], *, overlap: bool) -> dict[Key, Row]:
    """What a target makes of `net`; asserts what it may rely on."""
    result = dict(target)
    for gone in net.deletes.to_pylist():
        found = result.pop(tuple(gone.values()), None)
        assert overlap or found is not None
    origins = dict(zip(net.written.origin_rows.tolist(), net.written.origin.to_pylist(), strict=True))
    keys = set()
    for i, row in enumerate(net.upserts.to_pylist()):
        row_key = tuple(row[k] for k in key)
        assert row_key not in keys
        keys.add(row_key)
        if net.written.fresh[i]:
            assert row_key not in target
        lacking = [name for name, mask in net.written.unresolved.items() if mask[i]]
        assert bool(lacking) == (i in origins)
        for name in lacking:
            assert row[name] is None
            row[name] = target[tuple(origins[i].values())][name]
        result[row_key] = row
    return result


KEYS = {
    "one": (("id",), st.tuples(st.integers(0, 4))),
    "composite": (
        ("id", "part"),
        st.tuples(st.one_of(st.none(), st.integers(0, 2)), st.sampled_from([None, "a", "b"])),
    ),
    "text": (("part",), st.tuples(st.sampled_from([None, "", "a", "ä", "😀"]))),
}
COLUMNS = {"id": INT64, "part": STRING, "a": INT64, "b": STRING}


@st.composite
def histories(draw: st.DrawFn) -> tuple[TableSchema, dict[Key, Row], _Interpreter, list[int]]:
    key, key_values = KEYS[draw(st.sampled_from(sorted(KEYS)))]
    small = st.one_of(st.none(), st.integers(0, 99))

    def row_at(values: Key) -> Row:
        row = {"id": draw(small), "part": draw(st.sampled_from(["x", None])), "a": draw(small), "b": str(draw(small))}
        return row | dict(zip(key, values, strict=True))

    start = {k: row_at(k) for k in draw(st.sets(key_values, max_size=4))}
    table = _Interpreter(key, dict(start))
    free_columns = [name for name in COLUMNS if name not in key]
    for _ in range(draw(st.integers(0, 25))):
        at = draw(key_values)
        if at not in table.rows:
            moves = draw(st.booleans())
            if table.rows and moves:  # move a row here
                source = draw(st.sampled_from(sorted(table.rows, key=repr)))
                table.update(
                    source, row_at(at), frozenset(draw(st.sets(st.sampled_from(free_columns)))), carry_key=True
                )
            else:
                table.insert(row_at(at))
        elif draw(st.integers(0, 2)) == 0:
            table.delete(at)
        else:
            lacking = frozenset(draw(st.sets(st.sampled_from(free_columns))))
            table.update(at, row_at(at), lacking, carry_key=draw(st.booleans()))
    lengths = draw(st.lists(st.integers(1, 8), max_size=4))
    return make_schema(COLUMNS, key), start, table, lengths


@settings(max_examples=200, deadline=None)
@given(histories(), st.booleans())
def test_any_history_nets_to_what_doing_it_row_by_row_gives(
    history: tuple[TableSchema, dict[Key, Row], _Interpreter, list[int]], overlap: bool
) -> None:
    """NULL keys, composite keys, moves, swaps, chains, re-use, unchanged columns, any batch cuts."""
    schema, start, table, lengths = history
    net = net_changes(cut(schema, table.changes, lengths), schema, overlap=overlap)
    assert _merge(start, net, table.key, overlap=overlap) == table.rows
    seen = Counter(c.op for c in table.changes)
    assert (net.inserts, net.updates, net.removals) == (seen[INSERT], seen[UPDATE], seen[DELETE])
    assert not overlap or not net.written.fresh.any()


@settings(max_examples=80, deadline=None)
@given(histories(), st.data())
def test_a_replay_over_a_target_that_has_part_of_it_already_changes_nothing(
    history: tuple[TableSchema, dict[Key, Row], _Interpreter, list[int]], data: st.DataObject
) -> None:
    """With `overlap`, a target anywhere inside the history ends like one at its start; updates are full."""
    schema, start, table, lengths = history
    if any(c.unchanged for c in table.changes):
        return
    done = data.draw(st.integers(0, len(table.changes)))
    part = net_changes(cut(schema, table.changes[:done], lengths), schema, overlap=False)
    ahead = _merge(start, part, table.key, overlap=False)
    net = net_changes(cut(schema, table.changes, lengths), schema, overlap=True)
    assert _merge(ahead, net, table.key, overlap=True) == table.rows


@settings(max_examples=60, deadline=None)
@given(histories())
def test_a_plan_gives_the_same_in_parts_as_at_once(
    history: tuple[TableSchema, dict[Key, Row], _Interpreter, list[int]],
) -> None:
    schema, _, table, lengths = history
    plan = NetPlan(lambda: iter(cut(schema, table.changes, lengths)), schema, overlap=False)
    whole = plan.written()
    parts = list(plan.parts())
    assert len(plan) == len(whole) == sum(len(p) for p in parts)
    assert [r for p in parts for r in p.rows.to_pylist()] == whole.rows.to_pylist()
    assert [r for p in parts for r in p.origin.to_pylist()] == whole.origin.to_pylist()
    assert plan.all_fresh == (bool(whole.fresh.all()) and not plan.deletes)


def _net(changes: list[Change], columns: dict[str, DataType] | None = None) -> NetChanges:
    schema = make_schema(columns or {"id": INT64, "a": STRING}, ("id",))
    return net_changes([make_batch(schema, changes)], schema, overlap=False)


def _move(old: Any, new: Any, a: str = "x") -> Change:
    return Change(UPDATE, {"id": new, "a": a}, {"id": old})


def test_a_chain_leaves_only_its_end() -> None:
    """0→1→2 in one batch: a MERGE on the last key alone would leave row 0."""
    net = _net([_move(0, 1), _move(1, 2)])
    assert net.upserts.to_pylist() == [{"id": 2, "a": "x"}]
    assert net.deletes.to_pylist() == [{"id": 0}]
    assert net.written.sequence.tolist() == [2]
    assert net.delete_sequence.tolist() == [1]
    assert net.delete_timestamp.tolist() == [10]


def test_a_swap_through_a_third_key_exchanges_two_rows() -> None:
    net = _net([_move(1, 0, "p"), _move(2, 1, "q"), _move(0, 2, "p")])
    assert net.upserts.to_pylist() == [{"id": 1, "a": "q"}, {"id": 2, "a": "p"}]
    assert not net.deletes
    assert net.written.fresh.tolist() == [False, False]


def test_a_row_that_came_and_went_is_no_change() -> None:
    net = _net([Change(INSERT, {"id": 1, "a": "x"}), Change(DELETE, None, {"id": 1})])
    assert (len(net.written), len(net.deletes), net.inserts, net.removals) == (0, 0, 1, 1)


def test_a_hot_row_updated_many_times_without_a_column_keeps_the_first_value() -> None:
    """100,000 updates of one row: resolved in a handful of steps, not one each."""
    insert = Change(INSERT, {"id": 1, "a": "big"})
    lacking = Change(UPDATE, {"id": 1, "a": None}, None, frozenset({"a"}))
    schema = make_schema({"id": INT64, "a": STRING}, ("id",))
    batches = cut(schema, [insert, *[lacking] * 100_000], [1])
    net = net_changes(batches, schema, overlap=False)
    assert net.upserts.to_pylist() == [{"id": 1, "a": "big"}]
    assert net.written.unresolved == {}


def test_a_moved_row_takes_a_column_it_does_not_send_from_the_target_under_its_first_key() -> None:
    lacking = frozenset({"a"})
    net = _net([Change(UPDATE, {"id": n + 1, "a": None}, {"id": n}, lacking) for n in (5, 6)])
    assert net.written.origin.to_pylist() == [{"id": 5}]
    assert net.written.unresolved["a"].tolist() == [True]


def test_a_plan_that_keeps_each_change_has_a_row_for_each_and_the_keys_that_rows_left() -> None:
    """What a change does not send comes from the change before it, also over a move, or from the target."""
    schema = make_schema({"id": INT64, "a": STRING, "b": STRING}, ("id",))
    rest = frozenset({"b"})
    first = [
        Change(INSERT, {"id": 1, "a": "x", "b": "y"}),
        Change(UPDATE, {"id": 1, "a": "z", "b": None}, unchanged=rest),
    ]
    second = [
        Change(UPDATE, {"id": 2, "a": "z", "b": None}, {"id": 1, "a": None, "b": None}, rest),
        Change(DELETE, {"id": 2, "a": "z", "b": "y"}, {"id": 2, "a": None, "b": None}),
        Change(UPDATE, {"id": 9, "a": "n", "b": None}, unchanged=rest),
    ]
    batches = [make_batch(schema, first), make_batch(schema, [], 3), make_batch(schema, second, 3)]
    plan = NetPlan(lambda: iter(batches), schema, overlap=False, keeps_each=True)
    parts = list(plan.parts())
    assert [len(part) for part in parts] == [2, 3]
    rows = [tuple(row.values()) for part in parts for row in part.rows.to_pylist()]
    assert rows == [(1, "x", "y"), (1, "z", "y"), (2, "z", "y"), (2, "z", "y"), (9, "n", None)]
    assert [part.sequence.tolist() for part in parts] == [[1, 2], [3, 4, 5]]
    assert plan.op.tolist() == [INSERT, UPDATE, UPDATE, DELETE, UPDATE]
    assert (plan.deletes.to_pylist(), plan.removed_by.tolist()) == ([{"id": 1}], [2])
    assert (parts[1].origin_rows.tolist(), parts[1].origin.to_pylist()) == ([2], [{"id": 9}])


def test_float_keys_hold_nan_equal_and_zeros_equal() -> None:
    rows = [{"id": float("nan"), "a": "1"}, {"id": 0.0, "a": "2"}]
    changes = [Change(INSERT, r) for r in rows]
    changes += [Change(UPDATE, {"id": float("nan"), "a": "3"}), Change(UPDATE, {"id": -0.0, "a": "4"})]
    net = _net(changes, {"id": FLOAT64, "a": STRING})
    assert net.upserts["a"].to_pylist() == ["3", "4"]


def test_a_value_of_a_row_deleted_before_is_an_error_not_a_guess() -> None:
    changes = [Change(DELETE, None, {"id": 1}), Change(UPDATE, {"id": 1, "a": None}, None, frozenset({"a"}))]
    with pytest.raises(DataError, match="RPL-5020") as raised:
        _net(changes)
    assert raised.value.table == "db.t"


def test_an_update_with_the_same_key_before_is_no_move() -> None:
    net = _net([_move(1, 1)])
    assert (len(net.deletes), net.written.fresh.tolist()) == (0, [False])


def test_nothing_nets_to_nothing_with_the_tables_columns() -> None:
    schema = make_schema(COLUMNS, ("id", "part"))
    net = net_changes([], schema, overlap=False)
    assert (net.upserts.schema, len(net.upserts), net.deletes.column_names) == (schema.arrow, 0, ["id", "part"])
    bag = net_bag([], make_schema(COLUMNS))
    assert (bag.rows.schema, len(bag)) == (schema.arrow, 0)


def _whole_numbers(bits: int) -> st.SearchStrategy[pa.Array]:
    """Keys of that width: anywhere, or close together at any place."""
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    close = st.integers(low, high - 20).flatmap(lambda first: st.lists(st.integers(first, first + 20), min_size=1))
    anywhere = st.lists(st.integers(low, high) | st.integers(0, 3), min_size=1, max_size=50)
    return (close | anywhere).map(lambda values: pa.array(values, getattr(pa, f"int{bits}")()))


@given(st.sampled_from([8, 16, 32, 64]).flatmap(_whole_numbers), st.booleans())
def test_keys_are_distinguished_by_sorting_or_by_place_as_by_hashing(column: pa.Array, sort: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys, "_HASHED_ROWS", 0)
        patch.setattr(keys, "_CLOSE", 0 if sort else 4)
        found, count = keys.encode_keys([column])
    hashed, hashed_count = keys.encode_rows([column])
    assert count == hashed_count == len(column.unique())
    assert len(set(zip(found.tolist(), hashed.tolist(), strict=True))) == count


def test_a_plan_holds_none_of_the_rows() -> None:
    """Neither while it is made nor then: a slice of a batch, kept, would keep all of the batch."""
    schema = make_schema({"id": INT64, "a": STRING}, ("id",))
    before = pa.total_allocated_bytes()
    held = []

    def read() -> Iterator[ChangeBatch]:
        for first in range(0, 200_000, 20_000):
            gc.collect()
            held.append(pa.total_allocated_bytes() - before)
            yield _in_one_piece(first, schema)

    plan = NetPlan(read, schema, overlap=False)
    gc.collect()
    assert len(plan) == 100
    assert max(held) < 3_000_000  # the batch that was just taken
    assert pa.total_allocated_bytes() - before < 1_000_000


def _in_one_piece(first: int, schema: TableSchema) -> ChangeBatch:
    """A batch of 10 rows and a million bytes as it is read from a file: all its columns are one piece of memory."""
    changes = [Change(INSERT, {"id": n, "a": "x"}) for n in range(first, first + 10)]
    batch = make_batch(schema, changes, first + 1)
    wide = pa.array(["x" * 100_000] * 10)
    rows = pa.StructArray.from_arrays([batch.row.field("id"), wide], fields=list(schema.struct))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema(list(schema.struct))) as stream:
        stream.write_batch(pa.RecordBatch.from_struct_array(rows))
    loaded = pa.ipc.open_stream(sink.getvalue()).read_next_batch()
    return replace(batch, row=loaded.to_struct_array())


@pytest.mark.parametrize("case", ["no numbers", "no key before", "no key"])
def test_a_broken_promise_of_the_reader_is_a_bug_error(case: str) -> None:
    schema = make_schema({"id": INT64, "a": STRING}, () if case == "no key" else ("id",))
    batch = make_batch(schema, [Change(DELETE, None, None if case == "no key before" else {"id": 1})])
    if case == "no numbers":
        batch = ChangeBatch(schema, batch.op, batch.row, batch.before, batch.ordinals)
    with pytest.raises(BugError):
        net_changes([batch], schema, overlap=False)


NESTED = {"f": FLOAT64, "l": Array(INT64), "r": Record((("x", INT64), ("y", Array(STRING))))}
_values = st.fixed_dictionaries(
    {
        "f": st.sampled_from([None, 0.0, 1.5, float("nan")]),
        "l": st.sampled_from([None, [], [None], [1], [1, 2]]),
        "r": st.sampled_from([None, {"x": None, "y": None}, {"x": 1, "y": []}, {"x": 1, "y": ["a", None]}]),
    }
)


def _hashable(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    if isinstance(value, dict):
        return tuple((k, _hashable(v)) for k, v in sorted(value.items()))
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([INSERT, UPDATE, DELETE]), _values, _values), max_size=30),
    st.lists(st.integers(1, 8), max_size=4),
)
def test_a_bags_net_counts_are_those_of_counting_rows(
    drawn: list[tuple[DMLOperation, Row, Row]], lengths: list[int]
) -> None:
    """Equal rows, NULLs, NaN, lists and records; only counts that are not zero, no row twice."""
    changes = [Change(op, None if op == DELETE else new, None if op == INSERT else old) for op, new, old in drawn]
    expected: Counter[Any] = Counter()
    for change in changes:
        expected.update([_hashable(change.row)] if change.row else [])
        expected.subtract([_hashable(change.before)] if change.before else [])
    schema = make_schema(NESTED)
    bag = net_bag(cut(schema, changes, lengths, full=True), schema)
    found = [_hashable(row) for row in bag.rows.to_pylist()]
    assert len(set(found)) == len(found)
    assert dict(zip(found, bag.counts.tolist(), strict=True)) == {k: n for k, n in expected.items() if n}


def test_a_bags_row_carries_the_number_of_the_last_change_that_touched_it() -> None:
    schema = make_schema({"a": INT64})
    changes = [Change(INSERT, {"a": 1}), Change(UPDATE, {"a": 2}, {"a": 3}), Change(INSERT, {"a": 1})]
    bag = net_bag([make_batch(schema, changes, full=True)], schema)
    stamped = dict(zip(bag.rows["a"].to_pylist(), bag.sequence.tolist(), strict=True))
    assert stamped == {1: 3, 2: 2, 3: 2}
    assert set(bag.timestamp.tolist()) == {20, 30}


def test_a_bag_refuses_a_change_without_the_whole_row_before() -> None:
    schema = make_schema({"a": INT64})
    with pytest.raises(BugError, match="RPL-9023"):
        net_bag([make_batch(schema, [Change(DELETE, None, {"a": 1})])], schema)
    lacking = Change(UPDATE, {"a": None}, {"a": 1}, frozenset({"a"}))
    with pytest.raises(BugError, match="RPL-9023"):
        net_bag([make_batch(schema, [lacking], full=True)], schema)
