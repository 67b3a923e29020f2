"""Where a state is restored that is older than the tables, rows that were put aside since are copied or put aside again."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
import structlog

from replicator_state import ReplicatorDirectory
from tests.runtime.engine.letters.test_renamed_letters import aside, refusing, shop

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.runtime.engine.test_run import Shop

__all__ = ["refusing", "shop"]


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
