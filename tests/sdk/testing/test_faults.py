"""Faults happen at the call the script names, and nowhere else."""

from __future__ import annotations

import threading
import time

import pytest

from replicator_sdk.errors import BugError, RetryableError
from replicator_sdk.schema import TableId
from replicator_sdk.testing.contexts import TestTargetContext
from replicator_sdk.testing.faults import FailAfterWrite, FaultScript, FaultyTarget, Hold, Reject, Slow
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from replicator_sdk.testing.in_memory.target import MemoryConsumer, MemoryTarget, MemoryTargetConfig


def test_faults_come_in_order_and_then_all_goes_well() -> None:
    script, done = FaultScript(), []
    script.on("flush", None, Reject(), FailAfterWrite(lambda: ValueError("lost")))
    assert not script.exhausted
    script.run("flush", lambda: done.append(1))
    with pytest.raises(RetryableError):
        script.run("flush", lambda: done.append(2))
    with pytest.raises(ValueError, match="lost"):
        script.run("flush", lambda: done.append(3))
    script.run("flush", lambda: done.append(4))
    assert FaultScript().exhausted
    assert done == [1, 3, 4], "a rejected call does nothing, one whose answer is lost does its work"
    assert script.calls == ["flush"] * 4


def test_a_held_call_waits_until_it_is_released() -> None:
    script, hold, done = FaultScript(), Hold(), []
    script.on("apply_batch", hold)
    thread = threading.Thread(target=script.run, args=("apply_batch", lambda: done.append(1)))
    thread.start()
    assert hold.entered.wait(60)
    assert done == []
    hold.release.set()
    thread.join(120)
    assert done == [1]


def test_a_call_held_for_ever_is_the_tests_own_bug() -> None:
    script = FaultScript()
    script.on("apply_batch", Hold(timeout=0.01))
    with pytest.raises(BugError):
        script.run("apply_batch", lambda: None)


def test_a_slow_call_takes_its_time() -> None:
    script, start = FaultScript(), time.monotonic()
    script.on("flush", Slow(0.05))
    assert script.run("flush", lambda: 7) == 7
    assert time.monotonic() - start >= 0.05


def test_an_operation_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="merge"):
        FaultScript().on("merge", Reject())


@pytest.mark.parametrize("follows", [False, True])
def test_a_wrapped_consumer_is_as_capable_as_the_one_it_wraps(monkeypatch: pytest.MonkeyPatch, follows: bool) -> None:
    former, table = TableId("shop", "a"), TableId("shop", "b")
    monkeypatch.setattr(MemoryConsumer, "follows_databases", follows)
    monkeypatch.setattr(MemoryConsumer, "can_rename", lambda self, *names: names == (former, table))
    target = FaultyTarget(MemoryTarget(MemoryTargetConfig(store="faulty")), FaultScript())
    consumer = target.create_consumer(TestTargetContext(MemoryOffset.from_fields))
    assert consumer.follows_databases is follows
    assert consumer.can_rename(former, table)
    assert not consumer.can_rename(table, former)
