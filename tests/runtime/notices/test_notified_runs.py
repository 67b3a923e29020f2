"""A run notifies a service what fails and what works again, once each, and neither fails nor waits because of it."""

from __future__ import annotations

import io
import json
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.engine.schedule import notifying
from replicator_runtime.notices import conditions, sender
from replicator_runtime.observability import redaction
from replicator_runtime.observability.logs import configure_logging
from replicator_sdk.errors import DataError, NeedsUserError, ReplicatorError, RetryableError
from replicator_source_sqlite.plugin import SqliteSource
from replicator_state import ReplicatorDirectory
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.test_run import Shop, change, fill, shop
from tests.runtime.notices.webhook import Webhook, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["shop"]
TOKEN = "T0k3n-of-a-hook-42"
VALUE = "a-value-of-a-row"


@pytest.fixture
def webhook(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Iterator[Webhook]:
    """The shop notifies this service; what takes half a minute takes half a second."""
    monkeypatch.setattr(notifying, "_LOOK_SECONDS", 0.1)
    monkeypatch.setattr(conditions, "SURE_SECONDS", 0.2)
    monkeypatch.setattr(conditions, "_SETTLE_SECONDS", 0.5)
    monkeypatch.setattr(sender, "_FIRST_WAIT", 0.1)
    monkeypatch.setattr(sender, "_TWO_MESSAGES", 0.1)
    monkeypatch.setenv("REPLICATOR_SECRET_HOOK", TOKEN)
    with serving(Webhook()) as served:
        shop.document["notifications"] = [
            {
                "url": f"json://127.0.0.1:{served.port}/" + "${secure(hook)}",
                "on": ["table_failing", "run_failing", "run_failed"],
            }
        ]
        yield served
    redaction.redactor().forget()


@contextmanager
def running(shop: Shop) -> Iterator[None]:
    """A run that goes on within the block."""
    stop = threading.Event()
    thread = threading.Thread(target=lambda: shop.run(until_current=False, stop=stop), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)
    assert not thread.is_alive()


def refuse_customers(monkeypatch: pytest.MonkeyPatch, *, while_set: threading.Event) -> None:
    """The target refuses that table's changes."""
    apply = in_memory_target.InMemoryConsumer.apply_batch

    def refuse(self: Any, changes: Any) -> None:
        if while_set.is_set() and changes.table.table == "customers":
            raise DataError("the disk of customers is full", code="TST-0001", hint="free it", table=str(changes.table))
        apply(self, changes)

    monkeypatch.setattr(in_memory_target.InMemoryConsumer, "apply_batch", refuse)


def test_a_failing_table_and_its_recovery_are_notified_once_over_restarts(
    shop: Shop, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure_logging("debug", "json", stream=(said := io.StringIO()))
    fill(shop)
    shop.run()
    refuses = threading.Event()
    refuses.set()
    refuse_customers(monkeypatch, while_set=refuses)
    shop.sql(f"INSERT INTO customers VALUES (900, '{VALUE}')")
    with running(shop):
        webhook.until(lambda: len(webhook.messages) == 1)
    assert webhook.titles == ["a table fails"]
    assert "- main.customers: TST-0001: the disk of customers is full. Next: free it" in webhook.messages[0]["message"]
    for _ in range(3):
        with pytest.raises(ReplicatorError):
            shop.run()
    assert set(webhook.titles) <= {"a table fails", "the run has ended with an error"}
    assert webhook.titles.count("a table fails") == 1
    assert webhook.titles.count("the run has ended with an error") <= 1
    refuses.clear()
    shop.run()
    assert "a table no longer fails" in webhook.titles[-1]
    assert webhook.titles.count("a table fails") == 1
    state = b"".join(f.read_bytes() for f in shop.path.parent.glob("state/**/*") if f.is_file())
    for place in (json.dumps(webhook.messages), said.getvalue(), state.decode("latin-1")):
        assert TOKEN not in place
        assert VALUE not in place


def test_a_source_that_is_away_is_notified_and_that_it_is_back(
    shop: Shop, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(shop)
    away, create = threading.Event(), SqliteSource.create_reader
    shop.document["retries"] = {"delaySeconds": 0.3}
    shop.run()

    def create_reader(self: Any, *given: Any) -> Any:
        if away.is_set():
            raise RetryableError("the server is away", code="TST-0002", hint="start it")
        return create(self, *given)

    monkeypatch.setattr(SqliteSource, "create_reader", create_reader)
    away.set()
    with running(shop):
        webhook.until(lambda: len(webhook.messages) == 1)
        assert webhook.titles == ["the run fails, and is retried"]
        away.clear()
        webhook.until(lambda: len(webhook.messages) == 2)
    assert webhook.titles[1] == "the run works again"


def test_the_end_of_the_copy_is_notified_once(shop: Shop, webhook: Webhook) -> None:
    shop.document["notifications"][0]["on"] = ["snapshot_done"]
    fill(shop)
    for _ in range(3):
        shop.run()
        change(shop)
    assert webhook.titles == ["all tables are copied"]


def test_a_run_that_was_killed_is_reported_once_by_the_next_with_when_it_was_last_seen(
    shop: Shop, webhook: Webhook
) -> None:
    shop.document["notifications"][0]["on"] = ["run_gone"]
    fill(shop)
    shop.run()
    seen = shop.status()
    for file in shop.path.parent.glob("state/default/shop/*/state.*json"):
        file.write_text(json.dumps({**seen, "phase": "streaming"}))
    for _ in range(3):
        shop.run()
    assert webhook.titles == ["an earlier run has ended without a word"]
    assert (
        f"- run {seen['runId']} was last seen at {seen['updated']}, in the phase streaming"
        in webhook.messages[0]["message"]
    )
    assert webhook.messages[0]["type"] == "warning"


def test_a_run_that_fails_again_and_again_is_notified_once(
    shop: Shop, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(shop)
    shop.run()
    with monkeypatch.context() as broken:

        def refused(self: Any) -> str:
            raise NeedsUserError("no right", code="TST-0003", hint="grant it")

        broken.setattr(SqliteSource, "latest_offset", refused)
        for _ in range(4):
            with pytest.raises(NeedsUserError):
                shop.run()
    assert webhook.titles == ["the run has ended with an error"]
    shop.run()
    assert webhook.titles[1:] == ["a run works again"]


def test_a_service_that_refuses_gets_the_message_when_it_takes_one(
    shop: Shop, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure_logging("warning", "json", stream=(said := io.StringIO()))
    refuses = threading.Event()
    refuses.set()
    refuse_customers(monkeypatch, while_set=refuses)
    webhook.status = 500
    fill(shop)
    with running(shop):
        webhook.until(lambda: _copied(shop))
        shop.sql("INSERT INTO customers VALUES (900, 'x')")
        webhook.until(lambda: webhook.refused >= 2)
        webhook.status = 200
        webhook.until(lambda: len(webhook.messages) == 1)
    lines = [json.loads(line) for line in said.getvalue().splitlines() if "notification.not_sent" in line]
    assert {(line["code"], line["why"]) for line in lines} == {("RPL-1007", "the service answered with status 500")}


def test_a_service_that_hangs_holds_up_neither_the_run_nor_its_end(
    shop: Shop, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifying, "_END_SECONDS", 1.0)
    shop.document["notifications"][0]["on"] = ["snapshot_done", "run_failed"]
    webhook.answers.clear()
    fill(shop)
    shop.run()
    shop.assert_equal()
    ended: list[float] = []
    close = notifying.Notices.close

    def timed(self: Any, error: BaseException | None = None) -> None:
        began = time.monotonic()
        close(self, error)
        ended.append(time.monotonic() - began)

    monkeypatch.setattr(notifying.Notices, "close", timed)
    shop.run()
    assert ended[0] < 20, "two waits of a second, on a busy machine"
    assert webhook.messages == []


def test_a_state_that_cannot_be_written_and_a_broken_look_fail_no_run(
    shop: Shop, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    for name in ("load", "save", "update"):
        monkeypatch.setattr(conditions.Conditions, name, broken)
    fill(shop)
    assert shop.run().reached_goal
    shop.assert_equal()


def _copied(shop: Shop) -> bool:
    directory = ReplicatorDirectory(str(shop.path.parent / "state"), "default", "shop")
    found = directory.states().read_status() if directory.generations() else None
    return found is not None and [t["state"] for t in found["tables"]] == ["REPLICATING"] * 2
