"""What is new of the tables is found once, whatever happened between two looks."""

from __future__ import annotations

from replicator_runtime.lineage.changes import Change, Kind, Seen
from replicator_runtime.lineage.datasets import TableLineage
from replicator_sdk import TableId
from tests.runtime.lineage.test_events import lineage

A, B, C = TableId("d", "a"), TableId("d", "b"), TableId("d", "c")
NONE: frozenset[TableId] = frozenset()


def found(seen: Seen, now: dict[TableId, TableLineage], gone: frozenset[TableId] = NONE) -> list[tuple[Kind, str]]:
    return [(one.kind, one.lineage.source.name.rpartition(".")[2]) for one in seen.changes(now, gone)]


def test_tables_of_earlier_runs_are_known_and_later_ones_created() -> None:
    seen = Seen(first=True)
    assert found(seen, {}) == []
    assert found(seen, {A: lineage("a"), B: lineage("b")}) == [(Kind.KNOWN, "a"), (Kind.KNOWN, "b")]
    assert found(seen, {A: lineage("a"), B: lineage("b"), C: lineage("c")}) == [(Kind.CREATED, "c")]
    assert found(Seen(first=False), {A: lineage("a")}) == [(Kind.CREATED, "a")]


def test_an_altered_table_is_found_once_and_another_copy_of_it_is_no_change() -> None:
    seen = Seen()
    seen.changes({A: lineage("a", copy_id="1")}, NONE)
    assert found(seen, {A: lineage("a", columns=3, copy_id="1")}) == [(Kind.ALTERED, "a")]
    assert found(seen, {A: lineage("a", columns=3, copy_id="2")}) == []


def test_tables_that_exchange_names_are_altered_and_one_with_a_new_name_is_renamed() -> None:
    seen = Seen()
    seen.changes({A: lineage("a", copy_id="1"), B: lineage("b", copy_id="2")}, NONE)
    [change] = seen.changes({C: lineage("c", copy_id="1"), B: lineage("b", copy_id="2")}, frozenset({A}))
    assert change == Change(Kind.RENAMED, lineage("c", copy_id="1"), lineage("a", copy_id="1"))
    assert set(seen.tables) == {B, C}


def test_only_a_table_that_is_gone_is_dropped() -> None:
    seen = Seen()
    seen.changes({A: lineage("a"), B: lineage("b")}, NONE)
    assert found(seen, {A: lineage("a")}) == [], "it fails, or is not selected any more"
    assert found(seen, {A: lineage("a")}, frozenset({B, C})) == [(Kind.DROPPED, "b")]
    assert found(seen, {A: lineage("a"), B: lineage("b")}) == [(Kind.CREATED, "b")]


def test_all_tables_are_found_once_more_where_what_was_published_may_be_lost() -> None:
    seen = Seen(first=False)
    seen.changes({A: lineage("a"), B: lineage("b")}, NONE)
    seen.again = True
    assert found(seen, {A: lineage("a", columns=3), B: lineage("b")}) == [(Kind.ALTERED, "a"), (Kind.KNOWN, "b")]
    assert found(seen, {A: lineage("a", columns=3), B: lineage("b")}) == []
