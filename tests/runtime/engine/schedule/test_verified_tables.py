"""When a table is compared next, and that what was found outlives runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from replicator_runtime.engine.schedule.verified_tables import VerifiedTable, VerifiedTables
from replicator_sdk import TableId
from replicator_state import ReplicatorDirectory

if TYPE_CHECKING:
    from pathlib import Path

_FOUND = VerifiedTable("c1", 100.0, "different", 1, 2, 3, 4, 50, "p", 1.5, 100.0)


def test_a_table_is_due_when_the_schedule_is_made_and_then_after_each_interval() -> None:
    assert VerifiedTable("c1").due_at(600, since=50) == 50
    assert _FOUND.due_at(600, since=50) == 700
    assert _FOUND.due_at(600, since=150) == 150


@given(failures=st.integers(1, 200), every=st.floats(60, 1e6))
def test_one_without_a_result_is_tried_again_sooner_each_time_later(failures: int, every: float) -> None:
    failed = replace(_FOUND, error="RPL-1363: late", failures=failures)
    due = failed.due_at(every, since=50)
    assert failed.tried_at + 60 <= due <= failed.tried_at + every
    assert due <= replace(failed, failures=failures + 1).due_at(every, since=50)


def test_what_was_found_is_there_after_a_restart_but_not_for_another_copy(tmp_path: Path) -> None:
    directory = ReplicatorDirectory(str(tmp_path), "default", "shop")
    store, table, gone = directory.states(directory.acquire("run")), TableId("d", "t"), TableId("d", "gone")
    tables = VerifiedTables(store)
    tables.note(table, _FOUND)
    tables.note(gone, _FOUND)
    tables.keep_only({table})
    tables.save()
    again = VerifiedTables(store)
    assert again.get(table, "c1") == _FOUND
    assert again.get(table, "c2") == VerifiedTable("c2")
    assert again.get(gone, "c1") == VerifiedTable("c1")


def test_what_was_found_follows_its_copy_to_the_tables_new_name(tmp_path: Path) -> None:
    store = ReplicatorDirectory(str(tmp_path), "default", "shop").states(
        ReplicatorDirectory(str(tmp_path), "default", "shop").acquire("run")
    )
    a, b, c, d = (TableId("d", name) for name in "abcd")
    tables = VerifiedTables(store)
    for table, copy in ((a, "c1"), (b, "c2"), (c, "c3"), (d, "c4")):
        tables.note(table, replace(_FOUND, copy_id=copy))
    assert tables.follow_renames({"c1": b, "c2": a, "c3": c, "c5": d}) == {a: b, b: a}
    tables.save()
    again = VerifiedTables(store)
    assert [again.get(t, copy).result for t, copy in ((a, "c2"), (b, "c1"), (c, "c3"))] == ["different"] * 3
    assert again.get(a, "c1").result == ""
    again.note_copies({c: "c6", d: "c4"})
    assert again.follow_renames({"c6": d}) == {c: d}
