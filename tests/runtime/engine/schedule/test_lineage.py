"""A run publishes its lineage to a server that validates it; a server that does not answer holds up nothing."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
import structlog.testing

from replicator_runtime.engine.schedule import lineage
from replicator_runtime.lineage import publisher
from replicator_sdk.errors import NeedsUserError
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.in_memory_target import InMemoryTarget
from tests.runtime.engine.test_run import Host, Shop, fill
from tests.runtime.lineage.receiver import Receiver, receiving, validate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


@pytest.fixture
def shop(tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.setattr(lineage, "_LOOK_SECONDS", 0.1)
    in_memory_target.STORAGE = in_memory_target.TargetStorage()
    made = Shop(tmp_path)
    made.document["lineage"] = {"transport": receiver.transport}
    fill(made)
    return made


def lifecycle(facets: dict[str, Any]) -> str:
    return str(facets.get("lifecycleStateChange", {}).get("lifecycleStateChange", ""))


def test_a_run_publishes_its_tables_their_columns_and_its_end(shop: Shop, receiver: Receiver) -> None:
    shop.run()
    assert receiver.states() == ["START", "RUNNING", "COMPLETE"]
    found = receiver.outputs()
    assert set(found) == {"customers", "notes"}
    assert lifecycle(found["customers"]) == "CREATE"
    fields = found["customers"]["columnLineage"]["fields"]
    assert {name: one["inputFields"][0]["field"] for name, one in fields.items()} == {"id": "id", "name": "name"}
    [read] = {one["namespace"] for event in receiver.events for one in event["inputs"]}
    assert read == "file"
    first = {event["run"]["runId"] for event in receiver.events}
    assert len(first) == 1
    receiver.events.clear()
    shop.run()
    assert receiver.states() == ["START", "RUNNING", "COMPLETE"]
    assert lifecycle(receiver.outputs()["customers"]) == "", "an earlier run has created it"
    assert {event["run"]["runId"] for event in receiver.events}.isdisjoint(first)
    assert receiver.problems == []


def test_changes_of_structure_and_rows_are_published_while_the_run_goes_on(shop: Shop, receiver: Receiver) -> None:
    shop.document["lineage"]["everyMinutes"] = 0.002
    stop = threading.Event()
    thread = threading.Thread(target=lambda: shop.run(until_current=False, stop=stop))
    thread.start()
    try:
        receiver.wait_for(lambda: set(receiver.outputs()) == {"customers", "notes"})
        shop.sql("ALTER TABLE customers ADD COLUMN city TEXT", "INSERT INTO customers VALUES (900, 'x', 'y')")
        receiver.wait_for(lambda: lifecycle(receiver.outputs()["customers"]) == "ALTER")
        shop.sql("CREATE TABLE later (id INTEGER PRIMARY KEY)", "DROP TABLE notes")
        shop.document["newTablesIntervalSeconds"] = 1
        receiver.wait_for(lambda: "DROP" in states_of(receiver, "notes"))
        receiver.wait_for(lambda: rows_of(receiver, "customers") >= 1)
    finally:
        stop.set()
        thread.join(60)
    assert "city" in receiver.outputs()["customers"]["columnLineage"]["fields"]
    assert receiver.states()[-1] == "ABORT", "it was stopped"
    assert receiver.problems == []


def states_of(receiver: Receiver, table: str) -> list[str]:
    inputs = [one for event in receiver.events for one in event["inputs"] if one["name"].endswith(f"/{table}")]
    return [lifecycle(one["facets"]) for one in inputs]


def rows_of(receiver: Receiver, table: str) -> int:
    outputs = [one for event in receiver.events for one in event["outputs"] if one["name"].endswith(f".{table}")]
    return sum(one["outputFacets"].get("outputStatistics", {}).get("rowCount", 0) for one in outputs)


def test_a_run_that_fails_publishes_its_error_without_secrets_and_values(
    shop: Shop, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPLICATOR_SECRET_COLLECTOR", "canary-3141592653")
    auth = {"type": "api_key", "apiKey": "${secure(collector)}"}
    shop.document["lineage"]["transport"]["auth"] = auth
    shop.document["description"] = "canary-of-the-configuration"

    def refuse(*_: object, **__: object) -> None:
        raise NeedsUserError("no entry with canary-3141592653", code="RPL-9999", hint="say please")

    monkeypatch.setattr(InMemoryTarget, "create_consumer", refuse)
    with pytest.raises(NeedsUserError):
        shop.run()
    assert receiver.states()[-1] == "FAIL"
    message = receiver.events[-1]["run"]["facets"]["errorMessage"]["message"]
    assert message == "RPL-9999: no entry with ***"
    assert receiver.headers["Authorization"] == "Bearer canary-3141592653", "the transport had it"
    sent = json.dumps(receiver.events)
    assert "canary" not in sent
    assert "n7" not in sent, "a row's value"
    assert receiver.problems == []


def test_a_receiver_that_never_answers_holds_up_no_run(
    shop: Shop, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lineage, "_END_SECONDS", 0.2)
    shop.document["lineage"]["transport"]["timeout"] = 600
    receiver.waits.clear()
    began = time.monotonic()
    assert shop.run().reached_goal
    assert time.monotonic() - began < 60
    shop.assert_equal()


def test_tables_whose_events_were_lost_are_published_again_once_the_receiver_is_back(
    shop: Shop, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run goes on for months: what a receiver missed in an hour must not stay unknown to it until the next run."""
    monkeypatch.setattr(publisher, "EVENTS_AT_MOST", 2)
    monkeypatch.setattr(publisher, "_LONGEST_WAIT", 0.2)
    shop.document["lineage"]["everyMinutes"] = 0.001
    receiver.status = 500
    stop = threading.Event()
    thread = threading.Thread(target=lambda: shop.run(until_current=False, stop=stop))
    with structlog.testing.capture_logs() as logs:
        thread.start()
        try:
            receiver.wait_for(lambda: receiver.refused > 8)
            receiver.status = 200
            receiver.wait_for(lambda: set(receiver.outputs()) == {"customers", "notes"})
        finally:
            stop.set()
            thread.join(60)
    assert any(line["event"] == "lineage.published_again" and line["lost"] > 0 for line in logs)
    assert receiver.problems == []


@pytest.mark.parametrize("answer", ["500", "wrong settings", "a plugin that cannot name its tables"])
def test_what_fails_of_it_fails_no_run(
    shop: Shop, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    if answer == "500":
        receiver.status = 500
    elif answer == "wrong settings":
        shop.document["lineage"]["transport"] = {"type": "http"}
    else:
        monkeypatch.setattr(InMemoryTarget, "dataset", lambda *_: 1 / 0)
    assert shop.run().reached_goal
    shop.assert_equal()
    if answer.startswith("a plugin"):
        assert receiver.states() == ["START", "COMPLETE"]


def test_what_a_plugin_records_counts_more_than_its_description(shop: Shop, receiver: Receiver) -> None:
    made = Host.target

    class Recording(InMemoryTarget):
        def create_consumer(self, context: Any) -> Any:
            for table in self.storage_tables():
                context.lineage.record(table, "elsewhere.customers", {"id": "ID"})
            return super().create_consumer(context)

        def storage_tables(self) -> list[Any]:
            from replicator_sdk import TableId

            return [TableId("main", "customers")]

    try:
        Host.target = lambda self, name: Recording  # type: ignore[method-assign]
        shop.run()
    finally:
        Host.target = made  # type: ignore[method-assign]
    fields = receiver.outputs()["customers"]["columnLineage"]["fields"]
    assert {name: one["inputFields"][0]["field"] for name, one in fields.items()} == {"ID": "id"}
    assert {one["name"] for event in receiver.events for one in event["outputs"]} >= {"elsewhere.customers"}


def test_events_go_to_a_file_where_the_transport_says_so(shop: Shop, tmp_path: Path) -> None:
    file = tmp_path / "lineage.jsonl"
    shop.document["lineage"]["transport"] = {"type": "file", "log_file_path": str(file), "append": True}
    shop.run()
    events = [json.loads(line) for line in file.read_text().splitlines()]
    for event in events:
        validate(event)
    assert [events[0]["eventType"], events[-1]["eventType"]] == ["START", "COMPLETE"]
