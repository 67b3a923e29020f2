"""What a deletion removes, what it leaves and says so, and when it refuses and has changed nothing."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.control.delete import Outcome, delete
from replicator_runtime.engine.control.reset import reset
from replicator_runtime.engine.worker import run
from replicator_sdk import EventConsumer, failpoint
from replicator_sdk.errors import FencedError, HistoryLostError, NeedsUserError, ReplicatorError
from replicator_source_sqlite.plugin import SqliteSource
from tests.follows import follows
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.test_run import Host, Shop, fill, shop
from tests.runtime.test_setting_edits import Hosts, edited, set_target

if TYPE_CHECKING:
    from replicator_runtime.config import Pipeline
    from replicator_sdk import TableId

__all__ = ["edited", "shop"]


def pipeline(shop: Shop, **settings: object) -> Pipeline:
    return build_pipeline({**shop.document, **settings}, host=Host())  # type: ignore[arg-type]


def deleted(shop: Shop, *, tables: bool = False, keep_source: bool = False, **settings: object) -> Outcome:
    return delete(pipeline(shop, **settings), target_tables=tables, keep_source=keep_source)


def run_other(shop: Shop) -> None:
    """A run of another replicator of the same tables."""
    run(pipeline(shop, name="other"), until_current=True)


def state(shop: Shop) -> Path:
    return Path(shop.document["offsetBasePath"]) / "default" / "shop"


def ours(path: Path) -> list[str]:
    with sqlite3.connect(path) as database:
        found = [n for (n,) in database.execute("SELECT name FROM sqlite_schema WHERE name GLOB '_replicator_*'")]
    database.close()
    return found


def test_the_targets_tables_stay_unless_asked_for(shop: Shop) -> None:
    fill(shop)
    shop.run()
    done = deleted(shop)
    assert not state(shop).exists()
    assert ours(shop.path) == []
    assert "customers" in "\n".join(done.left)
    shop.assert_equal()


def test_tables_that_cannot_be_deleted_are_named_with_the_reason(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A target of strangers, which knows nothing of it."""
    fill(shop)
    shop.run()
    monkeypatch.setattr(in_memory_target.InMemoryConsumer, "delete_table", EventConsumer.delete_table)
    monkeypatch.setattr(SqliteSource, "create_clean_up", lambda *_, **__: None)
    left = "\n".join(deleted(shop, tables=True).left)
    assert "customers at the target: the target's plugin cannot delete tables" in left
    assert "the source plugin sqlite left" in left
    assert not state(shop).exists()
    shop.assert_equal()


@follows("RPL-1240")
def test_a_target_that_is_away_ends_it_and_another_one_does_the_rest(shop: Shop) -> None:
    fill(shop)
    shop.run()

    def away(step: str, table: TableId) -> None:
        if step == "delete" and table.table == "notes":
            raise FencedError("a newer run wrote the table", code="RPL-8001")

    in_memory_target.STORAGE.fault = away
    with pytest.raises(FencedError):
        deleted(shop, tables=True)
    in_memory_target.STORAGE.fault = lambda *_: None
    assert ours(shop.path)
    with pytest.raises(NeedsUserError, match=r"RPL-1240.*replicator delete"):
        shop.run()
    with pytest.raises(NeedsUserError, match="RPL-1240"):
        reset(pipeline(shop))
    deleted(shop, tables=True)
    assert in_memory_target.STORAGE.tables == {}
    assert ours(shop.path) == []
    for number in range(3):
        shop.sql(f"INSERT INTO notes VALUES ('{number}')", f"ALTER TABLE customers ADD COLUMN c{number} TEXT")
        shop.run()
        shop.assert_equal()


def test_what_a_replicator_of_the_same_name_with_its_state_elsewhere_took_over_stays(
    shop: Shop, tmp_path: Path
) -> None:
    """The deletion of the first removed the changelog that the second reads."""
    fill(shop)
    shop.run()
    first, kept = pipeline(shop), tmp_path / "elsewhere"
    shop.document["offsetBasePath"] = str(kept)
    in_memory_target.STORAGE.tables.clear()
    with pytest.raises(NeedsUserError, match="RPL-3514"):
        shop.run()
    reset(pipeline(shop), state_was_lost=True)
    shop.run()
    left = "\n".join(delete(first, target_tables=False, keep_source=False).left)
    assert "the changelog's reader default/shop/" in left
    assert ": another replicator of this `namespace` and `name`" in left
    for number in range(3):
        shop.sql(f"INSERT INTO notes VALUES ('{number}')", f"ALTER TABLE customers ADD COLUMN c{number} TEXT")
        shop.run()
        shop.assert_equal()
    deleted(shop)
    assert ours(shop.path) == []


@pytest.mark.parametrize("tables", [False, True])
def test_tables_that_the_source_dropped_before_are_named_among_what_stays(shop: Shop, *, tables: bool) -> None:
    """A table of that name that is there again is replicated, and no such table."""
    fill(shop)
    shop.sql("CREATE TABLE gone (id INTEGER PRIMARY KEY)", "CREATE TABLE again (id INTEGER PRIMARY KEY)")
    shop.run()
    shop.sql("DROP TABLE gone", "DROP TABLE again")
    shop.run()
    shop.sql("CREATE TABLE again (id INTEGER PRIMARY KEY)")
    for _ in range(3):
        shop.run()
    reset(pipeline(shop))
    [named] = [line for line in deleted(shop, tables=tables).left if "dropped or renamed earlier" in line]
    assert named.endswith("kept them: main.gone")


def test_what_another_replicator_reads_stays_and_it_goes_on(shop: Shop) -> None:
    fill(shop)
    run_other(shop)
    tables = dict(in_memory_target.STORAGE.tables)
    in_memory_target.STORAGE.tables.clear()
    shop.run()
    assert "other replicators read it: default/other/1" in "\n".join(deleted(shop).left)
    in_memory_target.STORAGE.tables.clear()
    in_memory_target.STORAGE.tables.update(tables)
    for number in range(3):
        shop.sql(f"INSERT INTO notes VALUES ('{number}')", f"ALTER TABLE customers ADD COLUMN c{number} TEXT")
        run_other(shop)
        shop.assert_equal()
    deleted(shop, name="other")
    assert ours(shop.path) == []


def test_another_source_than_the_states_is_left_alone(shop: Shop) -> None:
    fill(shop)
    shop.run()
    other = shop.path.with_name("other.db")
    shutil.copy(shop.path, other)
    with sqlite3.connect(other) as database:
        database.execute("UPDATE _replicator_facts SET value = 'another' WHERE name = 'identity'")
    database.close()
    shop.document["stages"][0]["plugin"]["properties"]["path"] = str(other)
    with pytest.raises(HistoryLostError, match="RPL-7140"):
        deleted(shop)
    assert ours(other)
    assert state(shop).exists()


def test_without_state_it_is_refused_with_what_is_to_be_done_by_hand(shop: Shop) -> None:
    fill(shop)
    shop.run()
    shutil.rmtree(state(shop))
    with pytest.raises(NeedsUserError, match=r"RPL-1242.*sqlite_schema"):
        deleted(shop)
    assert ours(shop.path)
    assert not state(shop).exists()


def test_the_source_is_kept_on_request(shop: Shop) -> None:
    fill(shop)
    shop.run()
    before = ours(shop.path)
    assert "remove it by hand: SELECT" in "\n".join(deleted(shop, keep_source=True).left)
    assert ours(shop.path) == before
    assert not state(shop).exists()


def test_tables_of_a_generation_that_never_ran_are_those_of_the_former(shop: Shop) -> None:
    fill(shop)
    shop.run()
    reset(pipeline(shop))
    deleted(shop, tables=True)
    assert in_memory_target.STORAGE.tables == {}


def test_tables_at_a_target_that_was_edited_are_not_said_to_be_deleted(
    edited: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are where they were written; of a path that no run has seen nothing is deleted."""
    monkeypatch.setitem(globals(), "Host", Hosts)
    set_target(edited, path="there", password="a secret of ours")
    with pytest.raises(NeedsUserError, match=r"RPL-1245.*`path` of the target was \"here\" and is \"there\""):
        deleted(edited, tables=True)
    reset(pipeline(edited))
    with pytest.raises(NeedsUserError, match="RPL-1245"):
        deleted(edited, tables=True)
    assert ours(edited.path)
    edited.assert_equal()
    set_target(edited, path="here", size=2, password="another secret")
    deleted(edited, tables=True)
    assert in_memory_target.STORAGE.tables == {}


def test_a_table_is_deleted_under_its_former_name_where_its_rename_was_cut_off(shop: Shop) -> None:
    fill(shop)
    shop.run()
    shop.sql("ALTER TABLE notes RENAME TO remarks")
    shop.document["retries"] = {"maxDurationSeconds": 0}
    failpoint.arm("engine.rename.saved=raise")
    with pytest.raises(ReplicatorError):
        shop.run()
    failpoint.arm("")
    deleted(shop, tables=True)
    assert in_memory_target.STORAGE.tables == {}
