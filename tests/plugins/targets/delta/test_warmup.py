"""The virtual machine is warmed up by a run without work only."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from replicator_target_delta import warmup


@pytest.fixture
def warmed(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when a throw-away commit would be made."""
    event = threading.Event()
    monkeypatch.setattr(warmup, "_commit_once", lambda spark: event.set())
    monkeypatch.setattr(warmup, "_QUIET_SECONDS", 0.05)
    return event


def _warm_up() -> warmup.WarmUp:
    return warmup.WarmUp(cast("Any", None))


def test_a_target_without_work_warms_up_after_a_while(warmed: threading.Event) -> None:
    _warm_up().start()
    assert warmed.wait(10)


def test_work_takes_its_place(warmed: threading.Event) -> None:
    waiting = _warm_up()
    waiting.start()
    waiting.cancel()
    waiting.cancel()
    assert not warmed.wait(0.3)
