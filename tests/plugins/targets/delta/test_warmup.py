"""The virtual machine is warmed up by a run without work only."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from replicator_target_delta import warmup
from replicator_target_delta.jvm_classes import JvmClasses


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
    assert warmed.wait(60)


def test_work_takes_its_place(warmed: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warmup, "_QUIET_SECONDS", 3600.0)
    waiting = _warm_up()
    waiting.start()
    waiting.cancel()
    waiting.cancel()
    waiting._timer.join(60)
    assert not waiting._timer.is_alive()
    assert not warmed.is_set()


def test_each_virtual_machine_is_warmed_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each copy has a consumer of its own, and opening a large table takes longer than a target waits."""
    made: list[str] = []
    machines = {"first": JvmClasses(_Machine()), "second": JvmClasses(_Machine())}
    monkeypatch.setattr(JvmClasses, "of", machines.__getitem__)
    monkeypatch.setattr(warmup, "TableLog", lambda spark, folder: made.append(spark))
    for spark in ("first", "first", "second"):
        warmup._commit_once(cast("Any", spark))
    assert made == ["first", "second"]


class _Machine:
    """The key of a virtual machine in this test."""
