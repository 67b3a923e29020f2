"""`snapshot.mode` "only": a run copies all tables as of one position, releases the source and ends; no later run follows the log."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.config import build_pipeline
from replicator_runtime.config.problem import InvalidPipelineError
from replicator_runtime.engine.control.reset import reset
from replicator_sdk import failpoint
from replicator_sdk.errors import NeedsUserError, RetryableError, SchemaDriftError
from replicator_sdk.source import DeltaSource
from replicator_source_sqlite.plugin import SqliteSource
from tests.follows import follows
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.planning.test_plans import approve, plan
from tests.runtime.engine.stream.test_paused_tables import alone
from tests.runtime.engine.test_run import Host, Shop, change, fill, shop

if TYPE_CHECKING:
    from replicator_sdk import TableId

__all__ = ["shop"]


def only(shop: Shop) -> Shop:
    fill(shop)
    shop.document["snapshot"] = {"mode": "only"}
    return shop


def ours(shop: Shop) -> list[str]:
    """What the replicator has in the database."""
    database = sqlite3.connect(shop.path)
    found = database.execute("SELECT name FROM sqlite_schema WHERE name LIKE '\\_rep%' ESCAPE '\\'").fetchall()
    database.close()
    return [name for (name,) in found]


def assert_ended(shop: Shop) -> None:
    """The source is released, and no run does anything more."""
    assert ours(shop) == []
    copied = [table.commits for table in in_memory_target.STORAGE.tables.values()]
    for mode in ("only", "initial"):
        shop.document["snapshot"] = {"mode": mode}
        with pytest.raises(NeedsUserError, match=r"RPL-2064.*replicator reset"):
            shop.run()
    assert ours(shop) == []
    assert [table.commits for table in in_memory_target.STORAGE.tables.values()] == copied


def test_a_run_copies_and_ends_and_releases_the_source(shop: Shop) -> None:
    only(shop)
    assert shop.run(until_current=False).reached_goal
    shop.assert_equal()
    change(shop)
    assert_ended(shop)
    assert plan(shop).steps[-1].code == "RPL-2064"


@follows("RPL-2064")
def test_a_reset_copies_again(shop: Shop) -> None:
    only(shop).run(until_current=False)
    change(shop)
    reset(build_pipeline(shop.document, host=Host()))  # type: ignore[arg-type]
    shop.run(until_current=False)
    shop.assert_equal()
    assert_ended(shop)


@pytest.mark.parametrize("point", ["engine.only.copied", "engine.only.released"])
def test_a_run_that_was_cut_off_while_it_released_the_source_is_finished_by_the_next(shop: Shop, point: str) -> None:
    only(shop)
    failpoint.arm(f"{point}=raise")
    with pytest.raises(RetryableError):
        shop.run()
    failpoint.arm("")
    shop.assert_equal()
    with pytest.raises(NeedsUserError, match="RPL-2064"):
        shop.run()
    assert_ended(shop)


@follows("RPL-2066")
def test_a_paused_table_keeps_the_source_from_being_released(shop: Shop) -> None:
    """What it has in its lane would never come to the target."""
    fill(shop)
    shop.run()
    alone(shop, "pause", "notes")
    change(shop)
    shop.document["snapshot"] = {"mode": "only"}
    with pytest.raises(NeedsUserError, match=r"RPL-2066.*notes.*table resume"):
        shop.run(until_current=False)
    assert ours(shop) != []
    alone(shop, "resume", "notes")
    shop.run(until_current=False)
    shop.assert_equal()
    assert_ended(shop)


def test_a_table_that_fails_keeps_the_source_from_being_released(shop: Shop) -> None:
    only(shop)

    def fails(at: str, table: TableId) -> None:
        if table.table == "notes" and at != "progress":
            raise NeedsUserError("no", code="RPL-4001", table=str(table))

    in_memory_target.STORAGE.fault = fails
    with pytest.raises(NeedsUserError, match="RPL-4001"):
        shop.run()
    assert ours(shop) != []
    in_memory_target.STORAGE.fault = lambda step, table: None
    change(shop)
    shop.run(until_current=False)
    shop.assert_equal()
    assert_ended(shop)


def test_a_source_that_cannot_be_released_is_released_by_the_next_run(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(shop)

    def refuses(source: SqliteSource, **more: Any) -> None:
        raise NeedsUserError("no right", code="RPL-3501")

    with monkeypatch.context() as patch:
        patch.setattr(SqliteSource, "create_clean_up", refuses)
        with pytest.raises(NeedsUserError, match="RPL-3501"):
            shop.run()
    with pytest.raises(NeedsUserError, match="RPL-2064"):
        shop.run()
    assert_ended(shop)


def test_an_edit_to_only_needs_an_approval_and_ends_a_pipeline_that_followed_the_log(shop: Shop) -> None:
    fill(shop)
    del shop.document["edits"]
    shop.run()
    change(shop)
    shop.document["snapshot"] = {"mode": "only"}
    [step] = plan(shop).steps
    assert (step.subject, step.needs_approval) == ("snapshot.mode", True)
    with pytest.raises(SchemaDriftError, match="RPL-1260"):
        shop.run()
    approve(shop)
    shop.run(until_current=False)
    shop.assert_equal()
    assert_ended(shop)


def test_a_source_that_copies_no_tables_refuses_the_mode(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SqliteSource, "create_snapshot_reader", DeltaSource.create_snapshot_reader)
    only(shop)
    with pytest.raises(InvalidPipelineError) as refused:
        shop.run()
    assert [problem.code for problem in refused.value.problems] == ["RPL-2065"]
