"""A state that does not answer delays no other, and no one who asks."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from replicator_runtime.service.observation import looks
from replicator_runtime.service.observation.state_reader import Seen, StateReader
from replicator_state import ReplicatorDirectory
from tests.runtime.cli.test_commands import status_of
from tests.runtime.service.operations.ran import add_pipeline
from tests.runtime.service.services import Service

SECONDS = 30
LIST = "/v1/contexts/default/pipelines"


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """States below `hangs` do not answer until this is set."""
    answers, whole = threading.Event(), StateReader.look

    def look(self: StateReader) -> Seen:
        if "hangs" in self.directory.base_path:
            answers.wait(SECONDS)
        return whole(self)

    monkeypatch.setattr(StateReader, "look", look)
    yield answers
    answers.set()


def listed(service: Service) -> dict[str, Any]:
    """The list's items, by name."""
    return {one["name"]: one for one in service.client.get(LIST).json()}


def test_states_that_hang_hide_no_other_and_no_one_waits_for_them(
    service: Service, tmp_path: Path, hanging: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):
        add_pipeline(service, {"offsetBasePath": str(tmp_path / "hangs")}, f"hangs-{number}")
    add_pipeline(service, {"offsetBasePath": str(tmp_path / "state")}, "works")
    ReplicatorDirectory(str(tmp_path / "state"), "default", "works").states().put_status(
        status_of(datetime.now(UTC), "done")
    )
    deadline = time.monotonic() + SECONDS / 2
    while (shown := listed(service))["works"]["phase"] != "done":
        assert time.monotonic() < deadline
    tables = service.client.get(f"{LIST}/hangs-0/tables")
    assert (len(shown), tables.json()) == (7, [])
    assert time.monotonic() < deadline
    monkeypatch.setattr(looks, "SILENT_SECONDS", 0.0)
    assert [one["reason"] for one in listed(service)["hangs-5"]["needsYou"]] == ["unreadable"]
    hanging.set()
    deadline = time.monotonic() + SECONDS
    while service.context.observation._looks._under_way:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert not +service.context.observation._looks._threads


def test_a_change_of_ones_own_is_seen_at_once_and_waits_for_no_reading(tmp_path: Path) -> None:
    directory = ReplicatorDirectory(str(tmp_path), "default", "shop")
    reader = StateReader(directory)
    with reader._lock:
        reader.forget()
    assert reader.is_due
    reader.look()
    assert not reader.is_due
