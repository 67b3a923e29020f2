"""A copy that is made beside the target's table replaces it by one commit, once; what is cut off leaves the table as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.control import control
from replicator_runtime.engine.run_state.open_run import open_run
from replicator_runtime.engine.snapshot import table_copy
from replicator_sdk import Column
from replicator_sdk.datatype import INT64
from replicator_sdk.errors import FencedError, NeedsUserError
from replicator_state import OutcomeState
from replicator_target_bigquery.plugin import BigQueryTarget
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.apply.test_rejoining import at_work, count
from tests.runtime.engine.control.test_control import ask, copies, outcome, works
from tests.runtime.engine.in_memory_target import InMemoryConsumer, InMemoryTarget
from tests.runtime.engine.requests import requests
from tests.runtime.engine.test_run import Host, Shop, _wait, fill, shop

if TYPE_CHECKING:
    from replicator_sdk import TableId

__all__ = ["copies", "shop"]

POINTS = (
    "engine.request.begun",
    "engine.request.carried_out",
    "engine.snapshot.planned",
    "engine.snapshot.chunks_loaded",
    "target.committed",
    "engine.snapshot.finished",
)


@pytest.fixture
def filled(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """Tables of many chunks at a target that can do it."""
    monkeypatch.setattr(InMemoryTarget, "copies_beside", True)
    in_memory_target.STORAGE.beside = True
    shop.document["stages"][0]["plugin"]["properties"]["chunkRows"] = 3
    fill(shop)
    shop.run()
    return shop


def watch(seen: list[int]) -> None:
    """Note how many notes the target's table has at each step of its loading."""

    def look(step: str, table: TableId) -> None:
        if table.table == "notes" and step in {"load", "loaded", "finished"}:
            seen.append(count("notes"))

    in_memory_target.STORAGE.fault = look


@pytest.mark.parametrize("in_place", [False, True])
def test_readers_see_the_rows_of_before_until_the_copy_is_whole(
    filled: Shop, copies: list[str], in_place: bool
) -> None:
    seen: list[int] = []
    watch(seen)
    copies.clear()
    with at_work(filled):
        filled.sql("INSERT INTO notes VALUES ('before')")
        _wait(lambda: count("notes") == 21)
        request = ask(filled, "resync", "notes", inPlace=in_place)
        _wait(lambda: requests(filled).outcome(request.request_id) is not None)
        filled.sql("INSERT INTO notes VALUES ('beside')")
        _wait(lambda: bool(copies) and count("notes") == 22)
    assert copies == ["notes"]
    assert min(seen) == (0 if in_place else 21)  # the same, into the table itself, shows what is looked for
    works()
    for number in range(3):
        filled.sql(f"ALTER TABLE customers ADD COLUMN c{number} TEXT", "INSERT INTO notes VALUES ('later')")
        filled.run()
        filled.assert_equal()
    assert copies == ["notes"]


@pytest.mark.parametrize("point", POINTS)
def test_a_copy_that_is_cut_off_anywhere_leaves_the_table_whole_and_is_made_by_the_next_run(
    filled: Shop, copies: list[str], monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    died: list[str] = []
    discarded: list[str] = []

    def dies(name: str) -> None:
        if name == point and not died:
            died.append(name)
            raise FencedError("the process dies", code="RPL-8001")

    for module in (control, table_copy):
        monkeypatch.setattr(module, "failpoint", dies)
    in_memory_target.STORAGE.fault = lambda step, table: dies("target.committed") if step == "finished" else None
    monkeypatch.setattr(InMemoryConsumer, "discard_snapshot", lambda _, table, plan: discarded.append(plan))
    seen: list[int] = []
    copies.clear()
    request = ask(filled, "resync", "notes")
    with pytest.raises(FencedError):
        filled.run()
    assert died
    assert count("notes") == 20
    watch(seen)
    for number in range(3):
        filled.sql(f"ALTER TABLE customers ADD COLUMN c{number} TEXT", "INSERT INTO notes VALUES ('later')")
        filled.run()
        filled.assert_equal()
    assert min(seen, default=20) >= 20
    assert outcome(filled, request).state is OutcomeState.DONE
    is_cut = point in {"engine.snapshot.planned", "engine.snapshot.chunks_loaded"}
    assert copies == ["notes"] * (2 if is_cut else 1)  # what was committed is not copied again
    assert len(discarded) == is_cut


def test_a_later_copy_of_the_table_by_itself_is_made_in_steps_that_are_kept(filled: Shop) -> None:
    """Only what was asked for is begun again after each interruption."""
    ask(filled, "resync", "notes")
    filled.run()
    seen: list[int] = []
    watch(seen)
    filled.document["tables"] = [{"table": "customers"}]
    filled.run()
    filled.document["tables"] = [{"table": "*"}]
    filled.run()
    filled.assert_equal()
    assert min(seen) == 0


def test_a_copy_beside_that_the_target_refused_says_nothing_of_one_after_the_table_was_left(filled: Shop) -> None:
    """What the plan says of a table that is selected again is a copy in place."""

    def refuse(step: str, table: TableId) -> None:
        if step == "load" and table.table == "notes":
            raise NeedsUserError("it has other columns", code="RPL-6576", hint="give --in-place", table=str(table))

    request = ask(filled, "resync", "notes")
    in_memory_target.STORAGE.fault = refuse
    for _ in range(2):
        with pytest.raises(NeedsUserError, match="RPL-6576"):
            filled.run()
    assert outcome(filled, request).state is OutcomeState.DONE
    works()
    seen: list[int] = []
    watch(seen)
    filled.document["tables"] = [{"table": "customers"}]
    filled.run()
    filled.document["tables"] = [{"table": "*"}]
    filled.run()
    filled.assert_equal()
    assert min(seen) == 0


def test_a_copy_in_place_that_is_asked_for_later_is_in_place(filled: Shop) -> None:
    ask(filled, "resync", "notes")
    ask(filled, "resync", "notes", inPlace=True)
    seen: list[int] = []
    watch(seen)
    filled.run()
    filled.assert_equal()
    assert min(seen) == 0


def test_where_copies_are_throttled_it_has_to_be_in_place(filled: Shop, copies: list[str]) -> None:
    """A copy beside the table would be read at once."""
    filled.document["snapshot"] = {"maxRowsPerSecond": 100_000}
    copies.clear()
    request = ask(filled, "resync", "notes")
    filled.run()
    assert outcome(filled, request).code == "RPL-1237"
    assert copies == []


def test_a_copy_beside_kept_columns_is_refused_at_the_command_where_the_target_cannot_make_it(
    filled: Shop, copies: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was refused once the copy ran, and the table failed from then on."""
    assert not BigQueryTarget.copies_other_columns_beside
    monkeypatch.setattr(InMemoryTarget, "copies_other_columns_beside", False)
    with open_run(build_pipeline(filled.document, host=Host())) as opened:  # type: ignore[arg-type]
        opened.table_store.load()
        [notes] = [one for table, one in opened.table_store.records.items() if table.table == "notes"]
        notes.kept_columns = (Column("more", INT64),)
        opened.table_store.save(notes)
    copies.clear()
    refused, other = ask(filled, "resync", "notes"), ask(filled, "resync", "customers")
    filled.run()
    assert (outcome(filled, refused).state, outcome(filled, refused).code) == (OutcomeState.REFUSED, "RPL-1305")
    assert outcome(filled, other).state is OutcomeState.DONE
    assert copies == ["customers"]
    done = ask(filled, "resync", "notes", inPlace=True)
    filled.run()
    assert outcome(filled, done).state is OutcomeState.DONE
    assert copies == ["customers", "notes"]
    filled.assert_equal()
