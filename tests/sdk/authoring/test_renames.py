"""Renames of columns come in an order in which a target can apply each of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from replicator_sdk.authoring.renames import ordered_renames
from replicator_sdk.datatype import INT64
from replicator_sdk.event import Alter, AlterKind
from replicator_sdk.schema import Column

NAMES = ["a", "b", "c", "d", "e", "B", "C", "_replicator_renaming_0"]


def names(steps: list[Alter]) -> list[tuple[str, str]]:
    assert all(step.kind is AlterKind.RENAME_COLUMN and step.previous and step.column for step in steps)
    return [(step.previous.name, step.column.name) for step in steps if step.previous and step.column]


def renames(**pairs: str) -> list[tuple[Column, str]]:
    return [(Column(old, INT64), new) for old, new in pairs.items()]


def test_columns_that_keep_their_name_need_no_step() -> None:
    assert ordered_renames(renames(a="a", b="b")) == []


def test_a_chain_starts_at_its_end() -> None:
    assert names(ordered_renames(renames(a="b", b="c", c="d"))) == [("c", "d"), ("b", "c"), ("a", "b")]


def test_a_swap_uses_a_temporary_name() -> None:
    aside = "_replicator_renaming_0"
    assert names(ordered_renames(renames(a="b", b="a"))) == [("a", aside), ("b", "a"), (aside, "b")]


def test_the_temporary_name_is_none_of_the_tables_names() -> None:
    (_, aside), *_ = names(ordered_renames(renames(a="b", b="a"), ["_Replicator_Renaming_0"]))
    assert aside == "_replicator_renaming_1"


def test_two_cycles_use_two_temporary_names() -> None:
    steps = names(ordered_renames(renames(a="b", b="a", c="d", d="c")))
    asides = [new for _, new in steps if new.startswith("_replicator")]
    assert len(set(asides)) == len(asides) == 2


def test_a_name_in_another_case_waits_for_the_column_that_has_it() -> None:
    assert names(ordered_renames(renames(a="B", b="c"))) == [("b", "c"), ("a", "B")]


def test_a_change_of_case_is_one_step() -> None:
    assert names(ordered_renames(renames(a="A"))) == [("a", "A")]


def test_a_spelling_that_another_column_keeps_is_returned_as_it_is() -> None:
    assert names(ordered_renames(renames(b="b", y="B"))) == [("y", "B")]


@given(st.permutations(NAMES), st.lists(st.sampled_from(NAMES), unique_by=str.lower, min_size=6, max_size=6))
def test_every_step_takes_a_free_name_and_together_they_rename_as_asked(new: list[str], old: list[str]) -> None:
    wanted: list[str] = []
    for name in new:
        if name.lower() not in {n.lower() for n in wanted}:
            wanted.append(name)
    pairs = [(Column(before, INT64), after) for before, after in zip(old, wanted, strict=False)]
    there = {column.name: column.name for column, _ in pairs}
    for before, after in names(ordered_renames(pairs)):
        origin = there.pop(before)
        assert after.lower() not in {name.lower() for name in there}
        there[after] = origin
    assert there == {after: column.name for column, after in pairs}
