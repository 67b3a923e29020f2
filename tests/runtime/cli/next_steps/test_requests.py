"""What errors of requests, and of messages to services, advise is done as it is printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replicator_runtime.engine.control import control
from replicator_runtime.notices import conditions, sender
from replicator_state import RequestFolder
from tests.follows import advised, follows
from tests.runtime.engine.test_run import fill
from tests.runtime.notices.webhook import Webhook, serving

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


@follows("RPL-1007")
def test_after_its_url_was_corrected_a_service_takes_a_message(
    shop: OperatorShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run that could not send it says so in its log, and is not held up."""
    monkeypatch.setattr(conditions, "SURE_SECONDS", 0.0)
    monkeypatch.setattr(sender, "_FIRST_WAIT", 0.1)
    fill(shop)
    shop.until_current()
    with serving(Webhook()) as gone:
        port = gone.port
    shop.document["notifications"] = [{"url": f"json://127.0.0.1:{port}/a"}]
    refused = shop.refused("RPL-1007", "notifications", "test", shop.file)
    shop.sql("CREATE TABLE later (id INTEGER PRIMARY KEY)")
    shop.document["tables"] = [{"table": "missing"}]
    logged = shop.replicator("run", shop.file, "--until-current")
    assert "RPL-1007" in logged.output, logged.output
    words = advised([line for line in logged.output.splitlines() if "RPL-1007" in line], "notifications test")
    del shop.document["tables"]
    with serving(Webhook()) as there:
        shop.document["notifications"] = [{"url": f"json://127.0.0.1:{there.port}/a"}]
        assert "give the command again" in refused.stderr
        shop.done("notifications", "test", shop.file)
        shop.done(*words)
        assert there.titles[:2] == ["a test", "a test"]
        shop.goes_on()
