"""Whose changes are emitted follows the tables, not their names."""

from __future__ import annotations

import random

import pytest

from replicator_sdk import Column, TableId, TableSchema
from replicator_sdk.datatype import STRING
from replicator_source_sqlite.capture.versions import Version
from replicator_source_sqlite.streaming.selection import Selection

_SAME = {"id": "id", "v": "v"}


def version(number: int, name: str, *columns: str) -> Version:
    listed = tuple(Column(column, STRING) for column in columns or _SAME)
    return Version(number, TableSchema(TableId("main", name), listed, ("id",)), 0, live=True)


def test_a_table_that_takes_the_name_of_one_which_is_not_selected_stays_selected() -> None:
    """`a` becomes `b`, and `b`, which is not replicated, becomes `c` in the same statement."""
    selection = Selection({TableId("main", "a"): None})
    first, other = version(1, "a"), version(2, "b")
    later, left = version(3, "b"), version(4, "c")
    assert selection.schema(other) is None
    selection.follow(first, later, _SAME)
    assert selection.schema(other) is None, "the name is another table's by now"
    assert selection.schema(later) == later.schema
    assert selection.schema(left) is None


@pytest.mark.parametrize("seed", range(20))
def test_whoever_takes_whose_name_in_whichever_order_the_same_tables_are_selected(seed: int) -> None:
    chance = random.Random(seed)
    names = [f"t{n}" for n in range(6)]
    tables = {name: version(number, name) for number, name in enumerate(names)}
    selected = set(chance.sample(names, 3))
    selection, number = Selection({TableId("main", name): None for name in selected}), 10
    for _ in range(8):
        moved = chance.sample(names, chance.randrange(2, 6))
        taken = [tables[name].schema.table.table for name in moved]
        for name, to in zip(moved, taken[1:] + taken[:1], strict=True):
            before, number = tables[name], number + 1
            tables[name] = version(number, to)
            if selection.schema(before) is not None:
                selection.follow(before, tables[name], _SAME)
    for name in selected:
        assert selection.schema(tables[name]) == tables[name].schema


def test_selected_columns_are_followed_under_their_new_names() -> None:
    selection = Selection({TableId("main", "a"): frozenset({"id", "v"})})
    before, after = version(1, "a", "id", "v", "secret"), version(2, "b", "id", "w", "secret")
    selection.follow(before, after, {"id": "id", "w": "v", "secret": "secret"})
    found = selection.schema(after)
    assert found is not None
    assert found.names == ("id", "w")
