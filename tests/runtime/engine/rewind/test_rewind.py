"""`replicator rewind` brings the target and the offset back together, and what follows makes the target equal again."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from replicator_runtime.engine.control.reset import reset
from replicator_sdk import failpoint
from replicator_sdk.errors import NeedsUserError, RetryableError
from tests.crash.kill_points import OF_REWIND as STEPS
from tests.follows import follows
from tests.runtime.engine.rewind.lake_shop import Copies, LakeShop

if TYPE_CHECKING:
    from replicator_runtime.engine.rewind.plan import RewindPlan


def test_the_target_is_as_it_was_and_three_runs_later_equal(lake_shop: LakeShop) -> None:
    """Over changes of rows and keys, a column that is added, one that is renamed and retyped, and an emptied table."""
    lake_shop.run()
    lake_shop.change(1)
    lake_shop.run()
    then, offset = lake_shop.copies(), lake_shop.saved()
    lake_shop.change(2)
    lake_shop.alter("ALTER TABLE customer ADD COLUMN city TEXT DEFAULT 'Rome'")
    lake_shop.change(3)
    lake_shop.run()
    lake_shop.alter("ALTER TABLE customer RENAME COLUMN city TO town")
    lake_shop.sql("DELETE FROM note", "INSERT INTO note VALUES ('after')")
    lake_shop.run()
    lake_shop.assert_equal()
    plan = lake_shop.rewind(offset)
    assert {name: one.back is not None for name, one in plan.items()} == {"customer": True, "note": True}
    assert lake_shop.copies() == then
    lake_shop.run()
    lake_shop.assert_equal()
    lake_shop.assert_three_runs()


def prepared(shop: LakeShop) -> tuple[str, Copies]:
    """A replicator whose tables have changes after an offset; that offset, and what the tables were there."""
    shop.run()
    shop.change(1)
    shop.run()
    offset, then = shop.saved(), shop.copies()
    later(shop, 2)
    return offset, then


def later(shop: LakeShop, number: int) -> None:
    """Changes, also of structure, that the next runs apply."""
    shop.change(number)
    shop.alter(f"ALTER TABLE customer ADD COLUMN city_{number} TEXT DEFAULT 'Rome'")
    shop.change(number + 1)
    shop.run()


@pytest.mark.timeout(300)
def test_a_rewind_that_ends_at_any_step_is_finished(lake_shop: LakeShop) -> None:
    """By the command again, or by a run before it does anything else; the others of the two after SIGKILL, in `crash`."""
    offset, then = prepared(lake_shop)
    for number, point in enumerate(sorted(STEPS)):
        failpoint.arm(f"{point}=raise")
        with pytest.raises(RetryableError, match="RPL-9900"):
            lake_shop.rewind(offset)
        failpoint.arm("")
        if number % 2:
            lake_shop.rewind(offset if number % 4 == 1 else "")
            assert lake_shop.copies() == then, point
        lake_shop.run()
        lake_shop.assert_equal()
        later(lake_shop, 50 + 2 * number)
        lake_shop.assert_equal()
    lake_shop.assert_three_runs()


def test_changes_of_a_lane_that_its_table_got_after_the_offset_are_not_lost(lake_shop: LakeShop) -> None:
    """The offset had passed them, and a later run gave them to the target in one commit with what followed the offset."""
    lake_shop.run()
    lake_shop.change(1)
    lake_shop.run()
    then = lake_shop.copies()
    lake_shop.directory().requests().submit("table.pause", {"tables": ["customer"]})
    lake_shop.change(2)
    lake_shop.run()
    inside = lake_shop.saved()
    lake_shop.change(3)
    lake_shop.run()
    lake_shop.directory().requests().submit("table.resume", {"tables": ["customer"]})
    lake_shop.run()
    lake_shop.assert_equal()
    with pytest.raises(NeedsUserError, match="RPL-1276") as refused:
        lake_shop.rewind(inside)
    lake_shop.assert_equal()
    named = re.search(r"--offset (offset\.\d+)", refused.value.hint)
    assert named is not None
    assert lake_shop.rewind(named[1])["customer"].back is not None
    assert lake_shop.copies() == then
    lake_shop.run()
    lake_shop.assert_equal()
    lake_shop.assert_three_runs()


def test_what_was_not_confirmed_changes_nothing(lake_shop: LakeShop) -> None:
    offset, then = prepared(lake_shop)
    before, saved = lake_shop.copies(), lake_shop.directory().offsets().latest()
    seen: list[RewindPlan] = []

    def no(plan: RewindPlan) -> None:
        seen.append(plan)
        raise NeedsUserError("no", code="RPL-1228")

    with pytest.raises(NeedsUserError, match="RPL-1228"):
        lake_shop.rewind(offset, no)
    [plan] = seen
    assert (plan.choice.name, plan.repeated) == (offset, 27)
    customer = plan.tables[0]
    assert str(customer.table) == "main.customer"
    assert customer.rows_now == lake_shop.source_rows("customer").total()
    assert customer.rows_then == then["customer"][1].total()
    assert customer.back is not None
    assert customer.now is not None
    assert customer.back < customer.now
    assert lake_shop.copies() == before
    now = lake_shop.directory().offsets().latest()
    assert saved is not None
    assert now is not None
    assert now.fields == saved.fields
    lake_shop.run()
    lake_shop.assert_equal()


def test_tables_that_were_copied_created_or_dropped_since_stay(lake_shop: LakeShop) -> None:
    """Their own positions say what they skip of the log that is read again."""
    lake_shop.sql("CREATE TABLE other (id INTEGER PRIMARY KEY)", "INSERT INTO other VALUES (1)")
    lake_shop.sql("CREATE TABLE named (id INTEGER PRIMARY KEY)", "INSERT INTO named VALUES (1)")
    offset, then = prepared(lake_shop)
    lake_shop.alter("CREATE TABLE fresh (id INTEGER PRIMARY KEY)", "INSERT INTO fresh VALUES (1)")
    lake_shop.run()
    lake_shop.alter("DROP TABLE other")
    lake_shop.alter("ALTER TABLE named RENAME TO renamed", "INSERT INTO renamed VALUES (2)")
    lake_shop.sql("INSERT INTO fresh VALUES (2)")
    lake_shop.run()
    plan = lake_shop.rewind(offset)
    assert {name: one.what.partition(",")[0] for name, one in plan.items() if one.back is None} == {
        "fresh": "stays: copied after that offset",
        "renamed": "stays: renamed after that offset",
    }
    assert lake_shop.copies() == then
    assert lake_shop.copied("fresh")[1].total() == 2
    lake_shop.sql("INSERT INTO fresh VALUES (3)", "INSERT INTO renamed VALUES (3)")
    lake_shop.run()
    lake_shop.assert_equal("customer", "note", "fresh", "renamed")
    lake_shop.assert_three_runs()
    lake_shop.assert_equal("fresh", "renamed")


def test_after_a_rewind_one_goes_back_further_but_not_forward(lake_shop: LakeShop) -> None:
    lake_shop.run()
    offsets, copies = [], []
    for number in range(1, 4):
        lake_shop.change(number)
        lake_shop.run()
        offsets.append(lake_shop.saved())
        copies.append(lake_shop.copies())
    lake_shop.rewind(offsets[1])
    with pytest.raises(NeedsUserError, match="RPL-1270"):
        lake_shop.rewind(offsets[2])
    assert lake_shop.copies() == copies[1]
    lake_shop.change(5)
    lake_shop.run()
    lake_shop.rewind(offsets[1])
    assert lake_shop.copies() == copies[1]
    lake_shop.rewind(offsets[0])
    assert lake_shop.copies() == copies[0]
    lake_shop.assert_three_runs()


def test_one_table_without_its_version_keeps_all_as_they_are(lake_shop: LakeShop) -> None:
    offset, _ = prepared(lake_shop)
    live = {Path(uri).name for uri in lake_shop.delta("note").file_uris()}
    for file in (lake_shop.lake / "main" / "note").glob("deletion_vector_*.bin"):
        file.unlink()
    for file in (lake_shop.lake / "main" / "note").glob("part-*"):
        if file.name not in live:
            file.unlink()
    before = lake_shop.delta("customer").version()
    with pytest.raises(NeedsUserError, match=r"RPL-3411.*main.note"):
        lake_shop.rewind(offset)
    assert lake_shop.delta("customer").version() == before


@follows("RPL-1277")
def test_a_table_whose_files_go_while_a_rewind_is_cut_lets_no_run_go_on(lake_shop: LakeShop) -> None:
    """Tables of two times are never mixed: the run names the way on."""
    offset, _ = prepared(lake_shop)
    failpoint.arm("engine.rewind.table=raise")
    with pytest.raises(RetryableError):
        lake_shop.rewind(offset)
    failpoint.arm("")
    for file in (lake_shop.lake / "main" / "note").glob("*.*"):
        file.unlink()
    version = lake_shop.delta("customer").version()
    with pytest.raises(NeedsUserError, match=r"RPL-1277.*replicator reset"):
        lake_shop.run()
    assert lake_shop.delta("customer").version() == version
    reset(lake_shop.pipeline())
    lake_shop.run()
    lake_shop.assert_equal()
