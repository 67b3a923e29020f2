"""The steps from one schema to the next can be applied one by one, and nothing uncertain is guessed."""

from __future__ import annotations

from typing import Any

import pytest

from replicator_sdk import Alter, AlterKind, Column, TableId, TableSchema
from replicator_sdk.datatype import INT32, INT64, STRING, Decimal
from replicator_source_postgres.schema.schema_diff import compare, identify, keeps_values

A = AlterKind


def schema(*columns: tuple[str, str, Any], key: tuple[str, ...] = ()) -> TableSchema:
    """A schema of (identity, name, type)."""
    return TableSchema(
        TableId("d", "t", "s"), tuple(Column(n, k, source_type=str(k), source_id=i) for i, n, k in columns), key
    )


def names_after(steps: tuple[Alter, ...], before: TableSchema) -> set[str]:
    """Apply drops, renames and adds one by one, as a target does; fails where a name is taken."""
    names = set(before.names)
    for step in steps:
        if step.kind in {A.DROP_COLUMN, A.RENAME_COLUMN}:
            assert step.previous is not None
            names.remove(step.previous.name)
        if step.kind in {A.ADD_COLUMN, A.RENAME_COLUMN}:
            assert step.column is not None
            assert step.column.name not in names
            names.add(step.column.name)
    return names


@pytest.mark.parametrize("order", ["bca", "cab", "bac", "acb", "abc", "cba"])
def test_renames_in_a_circle_can_be_applied_step_by_step(order: str) -> None:
    before = schema(("1", "a", INT32), ("2", "b", INT32), ("3", "c", INT32))
    after = schema(*((str(i + 1), name, INT32) for i, name in enumerate(order)))
    assert names_after(compare(before, after), before) == {"a", "b", "c"}


def test_a_rename_to_a_name_in_another_case_waits_until_that_name_is_free() -> None:
    """Many targets do not distinguish the case of names; to Postgres, `B` and `b` are two columns."""
    before = schema(("1", "id", INT32), ("2", "a", INT32), ("3", "b", INT32))
    after = schema(("1", "id", INT32), ("2", "B", INT32), ("3", "c", INT32))
    assert [(s.previous.name, s.column.name) for s in compare(before, after) if s.previous and s.column] == [
        ("b", "c"),
        ("a", "B"),
    ]


def test_a_name_freed_by_a_drop_can_be_taken_by_rename_and_add() -> None:
    before = schema(("1", "a", INT32), ("2", "b", INT32), ("3", "c", INT32))
    after = schema(("2", "a", INT32), ("3", "d", INT32), ("4", "b", INT32))
    assert names_after(compare(before, after), before) == {"a", "d", "b"}


def test_identities_come_from_the_catalogue_only_while_it_agrees_with_the_log() -> None:
    known = schema(("1", "id", INT32), ("2", "a", INT32))
    announced = [Column("id", INT32, source_type="int32"), Column("b", INT32, source_type="int32")]
    agrees = schema(("1", "id", INT32), ("2", "b", INT32)).columns
    moved_on = schema(("1", "id", INT32), ("2", "c", INT32)).columns
    assert [c.source_id for c in identify(announced, agrees, known).columns] == ["1", "2"]
    assert identify(announced, agrees, known).is_certain
    assert not identify(announced, moved_on, known).is_certain


def test_a_name_that_two_columns_had_one_after_the_other_is_certain_only_where_their_order_shows_which() -> None:
    known = schema(("1", "id", INT32), ("2", "a", INT32))
    announced = [Column("id", INT32, source_type="int32"), Column("a", INT32, source_type="int32")]
    another = schema(("1", "id", INT32), ("3", "a", INT32)).columns
    assert not identify(announced, another, known).is_certain
    before_b = schema(("1", "id", INT32), ("2", "a", INT32), ("3", "b", INT32))
    after_b = schema(("1", "id", INT32), ("3", "b", INT32), ("4", "a", INT32))
    shown = [Column(name, INT32, source_type="int32") for name in after_b.names]
    assert identify(shown, after_b.columns, before_b).is_certain


def announced_as(*names: str) -> list[Column]:
    """Columns of integers as the log announces them: without identities."""
    return [Column(name, INT32, source_type="int32") for name in names]


def test_columns_that_exchanged_names_are_known_by_their_places_when_the_catalogue_shows_a_later_exchange() -> None:
    known = schema(("1", "id", INT32), ("2", "a", INT32), ("3", "b", INT32), ("4", "c", INT32))
    later = schema(("1", "id", INT32), ("2", "b", INT32), ("3", "a", INT32), ("4", "c", INT32))
    found = identify(announced_as("id", "b", "c", "a"), later.columns, known)
    assert [(c.name, c.source_id) for c in found.columns] == [("id", "1"), ("b", "2"), ("c", "3"), ("a", "4")]
    assert found.is_certain


def test_places_say_nothing_once_a_column_is_gone_from_the_catalogue() -> None:
    """It may have been replaced by another one of its name."""
    known = schema(("1", "id", INT32), ("2", "a", INT32), ("3", "b", INT32))
    later = schema(("1", "id", INT32), ("3", "b", INT32), ("4", "c", INT32))
    assert not identify(announced_as("id", "b", "a"), later.columns, known).is_certain


def test_only_conversions_that_keep_every_value_need_no_snapshot() -> None:
    def column(kind: Any, source: str = "") -> Column:
        return Column("c", kind, source_type=source or str(kind))

    assert keeps_values(column(INT32), column(INT64))
    assert not keeps_values(column(INT64), column(INT32))
    assert keeps_values(column(Decimal(10, 2)), column(Decimal(12, 2)))
    assert not keeps_values(column(Decimal(10, 2)), column(Decimal(12, 1)))
    assert not keeps_values(column(Decimal(10, 2)), column(Decimal(11, 4)))
    assert keeps_values(column(STRING, "character varying(3)"), column(STRING, "text"))
    assert not keeps_values(column(STRING, "text"), column(STRING, "inet"))
    assert not keeps_values(column(INT32), column(STRING))
