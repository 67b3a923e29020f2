"""The difference between two schemas becomes steps that can be applied one after another."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from replicator_sdk.authoring.schema_diff import alter_steps, column_steps
from replicator_sdk.datatype import INT64, STRING
from replicator_sdk.event import Alter, AlterKind, DDLEvent, DDLOperation
from replicator_sdk.schema import Column, TableId, TableSchema
from replicator_sdk.testing.histories.reference import ReferenceTable
from replicator_sdk.testing.in_memory.offset import MemoryOffset

TABLE = TableId("shop", "orders")


def schema(*columns: Column | str, key: tuple[str, ...] = ()) -> TableSchema:
    return TableSchema(TABLE, tuple(Column(c, INT64) if isinstance(c, str) else c for c in columns), key)


def described(steps: list[Alter]) -> list[tuple[str, str, str]]:
    """Kind, name before and name after of each step."""
    return [(s.kind.value, s.previous.name if s.previous else "", s.column.name if s.column else "") for s in steps]


def test_equal_schemas_need_no_step() -> None:
    assert alter_steps(schema("a", "b", key=("a",)), schema("a", "b", key=("a",)), {"a": "a", "b": "b"}) == ()


def test_a_drop_makes_room_for_a_rename_and_a_rename_for_an_added_column() -> None:
    steps = column_steps(schema("a", "b"), schema("b", "a"), {"b": "a"})
    assert described(steps) == [("DROP_COLUMN", "b", ""), ("RENAME_COLUMN", "a", "b"), ("ADD_COLUMN", "", "a")]


def test_two_columns_swap_their_names() -> None:
    steps = column_steps(schema("a", "b"), schema("b", "a"), {"b": "a", "a": "b"})
    aside = "_replicator_renaming_0"
    renames = [("a", aside), ("b", "a"), (aside, "b")]
    assert described(steps) == [("RENAME_COLUMN", before, after) for before, after in renames]


def test_a_chain_of_renames_that_differ_in_case_starts_at_its_end() -> None:
    """`a` to "B" and `b` to `c`: a target that does not distinguish case can apply only this order."""
    steps = column_steps(schema("a", "b"), schema("B", "c"), {"B": "a", "c": "b"})
    assert described(steps) == [("RENAME_COLUMN", "b", "c"), ("RENAME_COLUMN", "a", "B")]


def test_a_column_without_origin_is_dropped_and_added_though_its_name_stays() -> None:
    steps = column_steps(schema("a", "b"), schema("a", "b"), {"a": "a"})
    assert described(steps) == [("DROP_COLUMN", "b", ""), ("ADD_COLUMN", "", "b")]


def test_a_changed_type_comes_after_the_rename_and_before_the_nullability() -> None:
    old = schema(Column("a", INT64, nullable=False, source_type="int"))
    new = schema(Column("b", STRING, nullable=True, source_type="text"))
    rename, retype, relax = column_steps(old, new, {"b": "a"})
    assert described([rename]) == [("RENAME_COLUMN", "a", "b")]
    assert retype == Alter(AlterKind.RETYPE_COLUMN, replace(new["b"], nullable=False), replace(old["a"], name="b"))
    assert relax == Alter(AlterKind.RELAX_COLUMN, new["b"], replace(new["b"], nullable=False))


def test_not_null_that_is_added_tightens_the_column() -> None:
    steps = column_steps(schema("a"), schema(Column("a", INT64, nullable=False)), {"a": "a"})
    assert described(steps) == [("TIGHTEN_COLUMN", "a", "a")]


def test_another_source_type_is_a_new_type_unless_source_types_are_not_compared() -> None:
    old, new = schema(Column("a", STRING, source_type="char(1)")), schema(Column("a", STRING, source_type="char(2)"))
    assert described(column_steps(old, new, {"a": "a"})) == [("RETYPE_COLUMN", "a", "a")]
    assert column_steps(old, new, {"a": "a"}, compare_source_types=False) == []


def test_an_added_column_has_the_value_of_the_rows_that_exist() -> None:
    steps = column_steps(schema("a"), schema("a", "b", "c"), {"a": "a"}, defaults={"b": 5})
    assert [step.default for step in steps] == [5, None]


def test_a_key_is_the_same_key_under_other_names() -> None:
    steps = alter_steps(schema("a", "b", key=("a",)), schema("b", "c", key=("b",)), {"b": "a", "c": "b"})
    assert AlterKind.CHANGE_KEY not in {step.kind for step in steps}


def test_a_key_of_other_columns_or_another_order_is_a_changed_key() -> None:
    same = {"a": "a", "b": "b"}
    for before, after in ((("a",), ("b",)), (("a", "b"), ("b", "a")), ((), ("a",)), (("a",), ())):
        steps = alter_steps(schema("a", "b", key=before), schema("a", "b", key=after), same)
        assert described(list(steps)) == [("CHANGE_KEY", "", "")], (before, after)


NAMES = st.lists(st.sampled_from(["a", "A", "b", "B", "c", "d", "e"]), unique_by=str.lower, max_size=5)


@given(NAMES, NAMES, st.randoms())
def test_every_step_can_be_applied_after_those_before_it(old: list[str], new: list[str], chance: random.Random) -> None:
    """The reference interpreter refuses a step that takes a name in use or changes a column that is not there."""
    before, after = schema(*old), schema(*new)
    kept = list(old)
    chance.shuffle(kept)
    origins = dict(zip(new, kept[: len(kept) // 2 + 1], strict=False))
    steps = alter_steps(before, after, origins)
    table = ReferenceTable(before, [{name: name for name in old}])
    table.alter(DDLEvent(MemoryOffset(1), DDLOperation.ALTER_TABLE, TABLE, after, alters=steps))
    assert table.rows == [{name: origins.get(name) for name in new}]
