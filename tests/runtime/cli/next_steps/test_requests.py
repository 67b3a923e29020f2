"""What errors of requests advise is done as it is printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replicator_runtime.engine.control import control
from replicator_state import RequestFolder
from tests.follows import follows
from tests.runtime.engine.test_run import fill

if TYPE_CHECKING:
    import pytest

    from tests.runtime.cli.next_steps.operator_shop import OperatorShop


@follows("RPL-1224")
def test_a_command_that_the_runs_release_lacks_is_there_once_both_are_of_one_release(
    shop: OperatorShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(shop)
    shop.until_current()
    with monkeypatch.context() as older:
        older.setattr(control, "COMMANDS", {k: v for k, v in control.COMMANDS.items() if k != "table.pause"})
        refused = shop.refused("RPL-1224", "table", "pause", shop.file, "notes")
    assert shop.follow(refused, "RPL-1224", "--version").stdout[0].isdigit()
    shop.done("table", "pause", shop.file, "notes")


@follows("RPL-1227")
def test_what_a_request_has_come_to_is_shown(shop: OperatorShop, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(shop)
    shop.until_current()
    lease = shop.directory.acquire("another")
    try:
        with monkeypatch.context() as begun:
            begun.setattr(RequestFolder, "withdraw", lambda self, one: not self.begin(one, "run another"))
            refused = shop.refused("RPL-1227", "table", "pause", shop.file, "notes", "--timeout", "0.1")
    finally:
        lease.release()
    [line] = [x for x in shop.follow(refused, "RPL-1227", "requests").stdout.splitlines() if "table.pause" in x]
    assert "waiting" in line
    shop.until_current()
    [line] = [x for x in shop.follow(refused, "RPL-1227", "requests").stdout.splitlines() if "table.pause" in x]
    assert "main.notes is paused" in line


@follows("RPL-1229")
def test_whether_a_command_was_done_whose_outcome_cannot_be_read_is_shown(
    shop: OperatorShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(shop)
    shop.until_current()

    def damaged(self: RequestFolder, request_id: str, _: object) -> None:
        self._folder.create(f"{request_id}.outcome", b"{")

    with monkeypatch.context() as patch:
        patch.setattr(RequestFolder, "finish", damaged)
        refused = shop.refused("RPL-1229", "table", "pause", shop.file, "notes")
    shop.until_current()
    assert "main.notes: paused since" in shop.follow(refused, "RPL-1229", "status").stdout
