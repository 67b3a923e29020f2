"""What errors advise is tried with a real SQLite database: the error, the command that it names, and runs that go on right."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.control.reset import reset
from replicator_runtime.engine.repair.heal import heal
from replicator_runtime.engine.rewind.choice import Wanted
from replicator_sdk.errors import HistoryLostError, NeedsUserError
from replicator_state import OutcomeState
from tests.follows import follows
from tests.runtime.engine.control.test_control import alone as carry_out
from tests.runtime.engine.control.test_control import ask, damage, outcome
from tests.runtime.engine.rewind.test_refusals import go_back, used
from tests.runtime.engine.stream.test_paused_tables import alone, three_runs
from tests.runtime.engine.structure.test_held_changes import ALTER, decide, policies, started, waiting
from tests.runtime.engine.test_run import Host, Shop, change, fill, shop

if TYPE_CHECKING:
    from replicator_runtime.config import Pipeline

__all__ = ["shop"]


def pipeline(shop: Shop) -> Pipeline:
    return build_pipeline(shop.document, host=Host())  # type: ignore[arg-type]


def resync(shop: Shop, table: str) -> None:
    """`replicator table resync NAME TABLE --in-place`, without a run."""
    request = ask(shop, "resync", table, inPlace=True)
    carry_out(shop)
    assert outcome(shop, request).state is OutcomeState.DONE


@follows("RPL-1231")
def test_a_lost_state_is_begun_again_with_the_word(shop: Shop) -> None:
    fill(shop)
    shop.run()
    shutil.rmtree(shop.document["offsetBasePath"])
    shop.sql("DELETE FROM customers WHERE id = 3")
    with pytest.raises(NeedsUserError, match=r"RPL-1231.*replicator reset PIPELINE --lost-state"):
        reset(pipeline(shop))
    reset(pipeline(shop), state_was_lost=True)
    three_runs(shop)


@follows("RPL-1274")
def test_where_nothing_can_go_back_a_table_is_copied_again(shop: Shop) -> None:
    offset = used(shop)[2]
    damage("notes")
    with pytest.raises(NeedsUserError, match=r"RPL-1274.*table resync NAME TABLE --in-place"):
        go_back(shop, Wanted(offset))
    resync(shop, "notes")
    three_runs(shop)


@follows("RPL-1293")
def test_a_paused_table_is_resumed_and_then_copied_again(shop: Shop) -> None:
    fill(shop)
    shop.run()
    alone(shop, "pause", "notes")
    change(shop)
    shop.run()
    damage("notes")
    request = ask(shop, "resync", "notes", inPlace=True)
    carry_out(shop)
    assert outcome(shop, request).code == "RPL-1293"
    assert alone(shop, "resume", "notes").state is OutcomeState.DONE
    resync(shop, "notes")
    three_runs(shop)


@follows("RPL-1296")
def test_after_a_change_was_decided_a_copy_makes_the_table_as_the_source_has_it(shop: Shop) -> None:
    started(shop, addColumn="ask")
    shop.sql(ALTER, "INSERT INTO notes VALUES ('after', 5)")
    shop.run()
    [held] = waiting(shop)
    assert decide(shop, "approve", held["id"]).state is OutcomeState.DONE
    refused = decide(shop, "reject", held["id"])
    assert refused.code == "RPL-1296"
    assert "`replicator table resync NAME TABLE --in-place`" in refused.hint
    assert refused.table == "main.notes"
    policies(shop)
    resync(shop, "main.notes")
    three_runs(shop)


def restore(shop: Shop) -> None:
    """The database is an earlier copy of itself again."""
    copy = shop.path.with_suffix(".copy")
    with closing(sqlite3.connect(shop.path)) as old, closing(sqlite3.connect(copy)) as new:
        old.backup(new)
    change(shop)
    shop.run()
    for file in shop.path.parent.glob("shop.db*"):
        file.unlink()
    copy.rename(shop.path)


@follows("RPL-3507")
def test_an_earlier_copy_of_the_database_is_taken_by_a_reset(shop: Shop) -> None:
    fill(shop)
    shop.run()
    restore(shop)
    with pytest.raises(HistoryLostError, match=r"RPL-3507.*replicator reset PIPELINE"):
        shop.run()
    reset(pipeline(shop))
    three_runs(shop)


@follows("RPL-1384")
def test_where_nothing_can_be_healed_everything_is_copied_again(shop: Shop) -> None:
    fill(shop)
    for _ in range(3):
        shop.run()
    shop.sql("DELETE FROM customers WHERE id < 10", "INSERT INTO notes VALUES ('in the gap')")
    shop.sql(
        "UPDATE _replicator_facts SET value = (SELECT max(id) FROM _replicator_changes) WHERE name = 'pruned'",
        "DELETE FROM _replicator_changes WHERE id < (SELECT max(id) FROM _replicator_changes)",
    )
    with pytest.raises(NeedsUserError, match=r"RPL-1384.*replicator reset PIPELINE"):
        heal(pipeline(shop), lambda plan: None)
    reset(pipeline(shop))
    three_runs(shop)
