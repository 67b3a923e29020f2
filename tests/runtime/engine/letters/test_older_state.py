"""Where a state is restored that is older than the tables, rows that were put aside since are copied or put aside again."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.letters.known_runs import KnownRuns
from replicator_runtime.engine.lifecycle.restored_tables import may_lack_letters
from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
from replicator_runtime.engine.run_state.open_run import open_run
from replicator_runtime.engine.run_state.plugin_contexts import TargetContext
from replicator_sdk import BatchConsumer
from replicator_state import ReplicatorDirectory
from replicator_state.state_store import StateValue
from tests.follows import follows
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.letters.test_renamed_letters import aside, command, refusing, shop
from tests.runtime.engine.test_run import Host

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.runtime.engine.test_run import Shop

__all__ = ["refusing", "shop"]


class _OneValue:
    """A store of one value, in memory."""

    value: bytes | None = None

    def get(self, _: str) -> bytes | None:
        return self.value

    def read(self, _: str) -> StateValue | None:
        return None if self.value is None else StateValue(self.value)

    def put(self, _: str, value: bytes) -> None:
        self.value = value


def _backup(shop: Shop) -> Callable[[], None]:
    """A copy of the state's folder; what is returned puts it back."""
    state, copied = shop.path.parent / "state", shop.path.parent / "backup"
    shutil.copytree(state, copied)

    def put_back() -> None:
        shutil.rmtree(state)
        shutil.copytree(copied, state)

    return put_back


def _copied_again(shop: Shop) -> list[str]:
    """A run; the codes for which it copied tables again."""
    with structlog.testing.capture_logs() as said:
        shop.run()
    return [str(entry["code"]) for entry in said if "copied again" in entry["event"]]


def _take_lease(shop: Shop) -> None:
    """As a command does, or a run that does not come to its first attempt."""
    ReplicatorDirectory(str(shop.path.parent / "state"), "default", "shop").acquire("command").release()


@pytest.mark.parametrize("leases", [0, 2], ids=["at once", "after two that write nothing"])
def test_a_table_of_which_rows_were_put_aside_since_is_copied_again(refusing: Shop, leases: int) -> None:
    put_back = _backup(refusing)
    refusing.sql("INSERT INTO items VALUES (3, 'L'), (4, 4)", "UPDATE items SET size = 'S' WHERE id = 1")
    refusing.run()
    assert aside(refusing) == {"items": 3}
    put_back()
    for _ in range(leases):
        _take_lease(refusing)
    refusing.sql("UPDATE items SET size = size WHERE id = 4")
    assert _copied_again(refusing) == ["RPL-4117"]
    assert aside(refusing) == {"items": 3}
    refusing.sql("UPDATE items SET size = id")
    for number in range(3):
        assert _copied_again(refusing) == []
        refusing.assert_equal("items")
        assert aside(refusing) == {}
        refusing.sql(f"INSERT INTO items (size) VALUES ({number})", f"ALTER TABLE items ADD COLUMN n{number} TEXT")


def test_commands_between_runs_and_crashes_copy_nothing_again(refusing: Shop) -> None:
    for number in range(3):
        _take_lease(refusing)
        refusing.sql(f"INSERT INTO items VALUES ({10 + number}, 'L'), ({20 + number}, {number})")
        assert _copied_again(refusing) == []
        assert aside(refusing) == {"items": 2 + number}


def test_where_no_rows_are_put_aside_the_table_goes_on(refusing: Shop) -> None:
    refusing.sql("UPDATE items SET size = id")
    refusing.run()
    refusing.document["onDataError"] = "fail"
    refusing.run()
    put_back = _backup(refusing)
    refusing.sql("INSERT INTO items VALUES (3, 3)")
    refusing.run()
    put_back()
    refusing.sql("INSERT INTO items VALUES (4, 4)")
    assert _copied_again(refusing) == []
    refusing.assert_equal("items")


def test_a_state_of_an_earlier_release_knows_all_runs_before(refusing: Shop, tmp_path: Path) -> None:
    for file in (tmp_path / "state").rglob("*engine-writers*"):
        file.unlink()
    refusing.sql("INSERT INTO items VALUES (3, 'L')")
    assert _copied_again(refusing) == []
    assert aside(refusing) == {"items": 2}


def test_what_another_command_writes_before_the_first_run_hides_nothing(refusing: Shop) -> None:
    refusing.sql("CREATE TABLE parts (id INTEGER PRIMARY KEY, size INTEGER)", "INSERT INTO parts VALUES (1, 1)")
    refusing.run()
    put_back = _backup(refusing)
    refusing.sql("INSERT INTO items VALUES (3, 'L')")
    refusing.run()
    put_back()
    with open_run(build_pipeline(refusing.document, host=Host())) as opened:  # type: ignore[arg-type]
        opened.table_store.load()
        copies = {table.table: record.copy_id for table, record in opened.table_store.records.items()}
        opened.known_runs.add_copies([copies["parts"]])
        assert opened.known_runs.has(opened.epoch, copies["parts"])
        assert not opened.known_runs.has(opened.epoch, copies["items"])
    assert _copied_again(refusing) == ["RPL-4117"]
    assert aside(refusing) == {"items": 2}
    assert _copied_again(refusing) == []


def test_a_table_that_is_paused_at_the_first_start_is_copied_again_when_it_is_resumed(refusing: Shop) -> None:
    command(refusing, "table.pause", tables=["items"])
    refusing.run()
    put_back = _backup(refusing)
    command(refusing, "table.resume", tables=["items"])
    refusing.sql("INSERT INTO items VALUES (3, 'L'), (4, 4)")
    refusing.run()
    assert aside(refusing) == {"items": 2}
    put_back()
    with structlog.testing.capture_logs() as said:
        refusing.run()
    assert {"RPL-4117", "RPL-4130"} <= {entry.get("code") for entry in said}
    command(refusing, "table.resume", tables=["items"])
    for number in range(3):
        refusing.sql(
            f"INSERT INTO items (id, size) VALUES ({10 + number}, {number})",
            f"ALTER TABLE items ADD COLUMN n{number} INT",
        )
        assert _copied_again(refusing) == []
        assert aside(refusing) == {"items": 2}
    refusing.sql("UPDATE items SET size = id")
    assert _copied_again(refusing) == []
    refusing.assert_equal("items")


def test_a_table_that_stays_paused_over_runs_keeps_its_lane(refusing: Shop) -> None:
    command(refusing, "table.pause", tables=["items"])
    for number in range(3):
        refusing.sql(f"INSERT INTO items VALUES ({10 + number}, 'L')")
        with structlog.testing.capture_logs() as said:
            refusing.run()
        assert not {"RPL-4117", "RPL-4130"} & {entry.get("code") for entry in said}
    command(refusing, "table.resume", tables=["items"])
    assert _copied_again(refusing) == []
    assert aside(refusing) == {"items": 4}


def test_a_table_that_fails_at_the_first_start_is_copied_again_once_it_works(
    refusing: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_back = _backup(refusing)
    refusing.sql("INSERT INTO items VALUES (3, 'L')")
    refusing.run()
    put_back()
    with monkeypatch.context() as patched:
        patched.setattr(TableLifecycle, "may_join", lambda *_: False)  # as where it cannot be described
        assert _copied_again(refusing) == ["RPL-4117"]
    assert _copied_again(refusing) == []
    assert aside(refusing) == {"items": 2}


@follows("RPL-4118")
def test_a_table_whose_deletes_are_left_out_stays_until_it_is_copied_on_request(refusing: Shop) -> None:
    refusing.document["tables"] = [{"table": "items", "dmlBlacklist": ["DELETE"]}]
    refusing.run()
    put_back = _backup(refusing)
    refusing.sql("INSERT INTO items VALUES (3, 'L')", "DELETE FROM items WHERE id = 1")
    refusing.run()
    put_back()
    with structlog.testing.capture_logs() as said:
        refusing.run()
    assert [entry["code"] for entry in said if entry.get("code") in ("RPL-4117", "RPL-4118")] == ["RPL-4118"]
    assert [row["id"] for row in in_memory_target.STORAGE.rows("items")] == [1]
    command(refusing, "table.resync", tables=["items"], inPlace=True)
    refusing.run()
    assert aside(refusing) == {"items": 2}
    assert in_memory_target.STORAGE.rows("items") == []


def test_a_damaged_file_of_the_known_runs_has_nothing_copied_again(refusing: Shop, tmp_path: Path) -> None:
    refusing.sql("INSERT INTO items VALUES (3, 'L')")
    refusing.run()
    [newest] = [file for file in (tmp_path / "state").rglob("*engine-writers*") if file.suffix != ".previous"]
    newest.write_bytes(b"damaged")
    assert _copied_again(refusing) == []


def test_commands_that_find_nothing_to_do_have_nothing_copied_again(refusing: Shop) -> None:
    for writes in (True, False, False):
        with open_run(build_pipeline(refusing.document, host=Host())) as opened:  # type: ignore[arg-type]
            opened.table_store.load()
            [record] = [r for r in opened.table_store.records.values() if r.table.table == "items"]
            consumer = opened.pipeline.target.create_consumer(TargetContext(opened))
            assert isinstance(consumer, BatchConsumer)
            progress = consumer.progress(record.table)
            assert progress is not None
            assert not may_lack_letters(opened, record, progress)
            opened.known_runs.add_copies([record.copy_id])
            if writes:
                in_memory_target.STORAGE.tables[record.table].progress = replace(progress, epoch=opened.epoch)
    assert _copied_again(refusing) == []


@given(st.lists(st.sampled_from(["run", "command", "idle command", "asks nothing", "lease"]), max_size=200), st.data())
def test_the_run_of_the_last_commit_is_known_and_what_is_kept_is_bounded(kinds: list[str], data: st.DataObject) -> None:
    store, last = _OneValue(), 0
    for epoch, kind in enumerate(kinds, 1):
        runs = KnownRuns(store, epoch)  # type: ignore[arg-type]
        if kind in ("run", "command", "idle command"):
            assert runs.has(last, "c")
            runs.add({"c"}) if kind == "run" else runs.add_copies(["c", "gone"])
        if kind in ("run", "command") and data.draw(st.booleans()):
            last = epoch
        if kind == "asks nothing" and kinds[: epoch - 1][-10:].count(kind) < 10:
            runs.add_copies(["d"])
    assert KnownRuns(store, len(kinds) + 1).has(last, "c")  # type: ignore[arg-type]
    assert len(store.value or b"") < 4000


@given(st.lists(st.sampled_from(["add", "copy", ""]), min_size=1, max_size=300))
def test_runs_that_were_added_are_known_and_what_is_kept_is_bounded(kinds: list[str]) -> None:
    store, added, copied = _OneValue(), [], 0
    for epoch, kind in enumerate(kinds, 1):
        runs = KnownRuns(store, epoch)  # type: ignore[arg-type]
        if kind == "add":
            runs.add({"c"})
            added.append(epoch)
        elif kind == "copy":
            runs.add_copies(["c", "gone"])
            copied = epoch
    known = KnownRuns(store, len(kinds) + 1)  # type: ignore[arg-type]
    first = next((epoch for epoch, kind in enumerate(kinds, 1) if kind), len(kinds) + 1)
    assert all(known.has(epoch, "d") for epoch in (*range(first), *added))
    assert known.has(copied, "c")
    if len(added) < 50:
        unknown = {*range(first, len(kinds) + 2)} - {*added}
        assert not any(known.has(epoch, "d") for epoch in unknown)
    assert len(store.value or b"") < 3000
