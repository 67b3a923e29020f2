"""A session that is begun early is the one that is asked for, fails where it is asked for, and is given up with the run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from replicator_runtime.engine.run_state import spark_handle
from replicator_runtime.engine.run_state.spark_handle import SparkHandle
from replicator_runtime.spark import session as sessions


class Starts:
    """In the place of Spark: counts starts, waits and fails as asked."""

    def __init__(self) -> None:
        self.begun, self.stopped, self.killed = 0, list[Any](), threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()
        self.error: Exception | None = None
        self.starting = threading.Event()

    def build(self, *_: object, **__: object) -> object:
        self.begun += 1
        self.starting.set()
        while not self.go_on.wait(0.01):
            if self.killed.is_set():
                raise ConnectionError("killed")
        if self.error is not None:
            raise self.error
        return f"session {self.begun}"


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> Starts:
    made = Starts()
    monkeypatch.setattr(sessions, "build_session", made.build)
    monkeypatch.setattr(sessions, "stop_session", made.stopped.append)
    monkeypatch.setattr(sessions, "end_starting_java", made.killed.set)
    monkeypatch.setattr(sessions, "is_dead", lambda _: True)
    monkeypatch.setattr(spark_handle, "spark_of", lambda _: {})
    return made


def _handle(*packages: str) -> SparkHandle:
    config, spark = SimpleNamespace(name="p"), SimpleNamespace(packages=packages, conf={})
    return SparkHandle(cast("Any", SimpleNamespace(config=config, spark=spark)))


def test_the_session_that_was_begun_is_the_one_that_is_asked_for(starts: Starts) -> None:
    handle = _handle("a:b:1")
    starts.go_on.clear()
    handle.begin()
    assert starts.starting.wait(10), "it starts before anyone asks"
    found: list[object] = []
    askers = [threading.Thread(target=lambda: found.append(handle.session())) for _ in range(3)]
    for asker in askers:
        asker.start()
    starts.go_on.set()
    for asker in askers:
        asker.join()
    assert found == ["session 1"] * 3
    handle.stop()
    handle.stop()
    assert starts.stopped == ["session 1"]


def test_a_pipeline_whose_plugins_need_no_spark_begins_none(starts: Starts) -> None:
    handle = _handle()
    handle.begin()
    handle.stop()
    assert starts.begun == 0
    assert str(handle.session()) == "session 1"


def test_a_failed_start_is_the_error_of_whoever_asks_first_and_is_tried_again_after_it(starts: Starts) -> None:
    handle = _handle("a:b:1")
    starts.error = OSError("no Java")
    handle.begin()
    with pytest.raises(OSError, match="no Java"):
        handle.session()
    starts.error = None
    assert str(handle.session()).startswith("session")
    assert starts.begun == 2
    handle.stop()


@pytest.mark.parametrize("end", [SparkHandle.stop, SparkHandle.stop_unasked])
def test_a_start_that_no_one_asked_for_is_given_up_at_once(starts: Starts, end: Callable[[SparkHandle], None]) -> None:
    handle = _handle("a:b:1")
    starts.go_on.clear()
    handle.begin()
    assert starts.starting.wait(10)
    end(handle)
    assert starts.killed.is_set()
    assert starts.stopped == []
    starts.go_on.set()
    assert str(handle.session()) == "session 2", "an attempt after a pause has one"


def test_a_session_that_is_used_is_not_taken_for_one_that_is_not(starts: Starts) -> None:
    handle = _handle("a:b:1")
    handle.begin()
    handle.session()
    handle.stop_unasked()
    assert starts.stopped == []
    assert not starts.killed.is_set()
    assert handle.drop_dead()
    assert str(handle.session()) == "session 2", "a dead one is replaced, though it was begun"
    handle.stop()
    assert starts.stopped == ["session 1", "session 2"]
