"""Requests that wait for a state or a command leave threads to all others."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from anyio import to_thread

from replicator_runtime.service.catalogue import installed_plugins
from replicator_runtime.service.commands.runner import CommandRunner
from replicator_runtime.service.observation.state_reader import StateReader
from replicator_runtime.service.places import Asking, Places, asking
from tests.runtime.service.operations.ran import add_pipeline
from tests.runtime.service.services import Service, settings_in
from tests.waits import until

SECONDS = 60


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """The status of every pipeline is not answered until this is set."""
    answers = threading.Event()

    def status(_: StateReader) -> dict[str, str]:
        answers.wait(SECONDS)
        return {}

    monkeypatch.setattr(StateReader, "status", status)
    yield answers
    answers.set()


def test_a_state_that_hangs_takes_neither_readiness_nor_other_requests_with_it(
    service: Service, hanging: threading.Event
) -> None:
    add_pipeline(service, {})
    found: list[tuple[int, str]] = []

    def ask() -> None:
        answer = service.client.get("/v1/contexts/default/pipelines/shop/status")
        found.append((answer.status_code, answer.headers.get("Retry-After", "")))

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(12)]
    for thread in threads:
        thread.start()
    until(lambda: len(found) == 4)
    assert set(found) == {(503, "10")}
    began = time.monotonic()
    assert service.client.get("/v1/contexts/other/drafts").json() == []
    portal = service.client.portal
    assert portal is not None
    portal.call(_allow_threads, 8)
    assert service.client.get("/readyz").status_code == 200
    assert time.monotonic() - began < SECONDS / 2
    hanging.set()
    for thread in threads:
        thread.join(SECONDS)
    assert found.count((200, "")) == 8


def test_a_namespace_leaves_places_and_turns_to_others_and_who_reads_to_who_operates(tmp_path: Path) -> None:
    places = Places(3, 2)
    assert [places.take(name) for name in ("a", "a", "a", "b", "b")] == [True, True, False, True, False]
    places.give("a")
    assert places.take("b")
    commands = CommandRunner(settings_in(tmp_path))
    viewer, operator, other = Asking("a", reads=True), Asking("a"), Asking("b")
    commands._asked.append(viewer)
    assert [commands._may_run(who) for who in (viewer, Asking("b", reads=True), operator)] == [False, False, True]
    commands._asked.append(operator)
    assert [commands._may_run(who) for who in (operator, other)] == [False, True]
    commands._asked.append(other)
    assert not commands._may_run(Asking("c"))


def test_an_operation_says_who_asks_for_its_commands(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Asking] = []

    def all_plugins(_: object) -> list[dict[str, str]]:
        asked.append(asking.get())
        return []

    monkeypatch.setattr(installed_plugins.InstalledPlugins, "all", all_plugins)
    assert service.client.get("/v1/plugins").status_code == 200
    config = {"name": "c", "plugin": {"name": "x", "type": "cdcSource", "properties": {"a": "b"}}}
    service.client.put("/v1/contexts/shops/connections/c", json=config)
    assert asked == [Asking("", reads=True), Asking("shops")]


def test_the_old_list_of_plugins_is_served_while_it_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = installed_plugins._Known([{"name": "old"}], time.monotonic() - 1000)
    monkeypatch.setattr(installed_plugins, "_KNOWN", known)
    goes_on = threading.Event()

    def ask(_: object) -> None:
        goes_on.wait(SECONDS)
        known.plugins, known.asked = [{"name": "new"}], time.monotonic()

    monkeypatch.setattr(installed_plugins.InstalledPlugins, "_ask", ask)
    plugins = installed_plugins.InstalledPlugins(CommandRunner(settings_in(tmp_path)))
    assert [plugins.all(), plugins.all()] == [[{"name": "old"}]] * 2
    goes_on.set()
    until(lambda: plugins.all() == [{"name": "new"}])


async def _allow_threads(count: int) -> None:
    to_thread.current_default_thread_limiter().total_tokens = count
