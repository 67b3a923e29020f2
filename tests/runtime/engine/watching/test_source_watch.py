"""The source is asked beside a run, which never waits for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from replicator_runtime.engine.run_state.progress import Progress
from replicator_runtime.engine.watching import source_watch
from replicator_runtime.engine.watching.source_watch import SourceWatch, watching_source
from replicator_sdk.discovery.source_health import HealthProbe, SourceHealth
from replicator_sdk.errors import RetryableError
from replicator_sdk.testing.in_memory.source import MemorySource

Health = Callable[..., SourceHealth | None]


def run_of(health: Health, probe: HealthProbe | None = None) -> Any:
    """A run of a source with that answer."""
    kind = type("Asked", (), {"health": staticmethod(health), "create_health_probe": lambda self, **_: probe})
    config = SimpleNamespace(namespace="default", name="shop")
    return SimpleNamespace(
        pipeline=SimpleNamespace(source=kind()),
        progress=Progress(),
        saved_offset=None,
        config=config,
        late_offsets={"orders": "before"},
    )


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_an_answer_is_shown_with_the_difference_of_the_clocks() -> None:
    run = run_of(lambda offset, **_: SourceHealth(time.time() + 30, waiting_bytes=5))
    SourceWatch(run).ask()
    view = run.progress.snapshot().source
    assert view.health.waiting_bytes == 5
    assert 29 < view.clock_ahead < 31


def test_a_source_that_raises_has_not_answered() -> None:
    def refuse(offset: object, **_: str) -> None:
        raise RetryableError("it is away", code="TST-0001", hint="start it")

    run = run_of(refuse)
    SourceWatch(run).ask()
    assert run.progress.snapshot().source is None


def test_a_call_that_blocks_holds_up_neither_a_run_nor_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def block(offset: object, **_: str) -> None:
        asked.set()
        go_on.wait(120)

    monkeypatch.setattr(source_watch, "EVERY_SECONDS", 0.01)
    monkeypatch.setattr(source_watch, "_CLOSE_SECONDS", 0.01)
    with watching_source(run_of(block)):
        assert asked.wait(60)
    assert not go_on.is_set()
    go_on.set()


def test_it_is_asked_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_watch, "EVERY_SECONDS", 0.01)
    answers: list[object] = []

    def answer(offset: object, **_: str) -> SourceHealth:
        answers.append(offset)
        return SourceHealth()

    with watching_source(run_of(answer)):
        wait_for(lambda: len(answers) > 2)


def test_a_source_that_cannot_be_asked_gets_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    run = SimpleNamespace(pipeline=SimpleNamespace(source=object.__new__(MemorySource)))
    monkeypatch.setattr(SourceWatch, "start", lambda self: pytest.fail("it is started"))
    with watching_source(run):  # type: ignore[arg-type]
        pass


def test_the_time_left_follows_from_how_the_log_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic()
    held = iter([100, 100, 200, 1000])
    run = run_of(lambda offset, **_: SourceHealth(held_bytes=next(held), held_limit_bytes=1000))
    watch = SourceWatch(run)
    left = []
    for seconds in (0, 10, 20, 30):
        monkeypatch.setattr(time, "monotonic", lambda seconds=seconds: now + seconds)
        watch.ask()
        left.append(run.progress.snapshot().source.seconds_left)
    assert left == [None, None, pytest.approx(800 / 100 * 20), 0.0]


def test_the_time_left_of_a_retention_is_what_the_lag_leaves_of_it() -> None:
    run = run_of(lambda offset, **_: SourceHealth(retention_seconds=3600))
    run.progress.set_phase("streaming")
    run.progress.read(False, int((time.time() - 600) * 1e6))
    SourceWatch(run).ask()
    assert run.progress.snapshot().source.seconds_left == pytest.approx(3000, abs=10)


def test_the_time_left_that_the_source_knows_itself_counts_more_than_what_follows_from_the_lag() -> None:
    run = run_of(lambda offset, **_: SourceHealth(retention_seconds=3600, seconds_left=60.0))
    run.progress.set_phase("streaming")
    run.progress.read(False, int((time.time() - 600) * 1e6))
    SourceWatch(run).ask()
    assert run.progress.snapshot().source.seconds_left == 60.0


class _Probe(HealthProbe):
    """Blocks from the third call on, until it is closed."""

    def __init__(self) -> None:
        self.asked = 0
        self.closed = threading.Event()

    def ask(self, offset: object, late: object = None) -> SourceHealth:
        assert late == {"orders": "before"}
        self.asked += 1
        if self.asked > 2:
            self.closed.wait(120)
            raise RetryableError("it is closed", code="TST-0001", hint="start it")
        return SourceHealth(waiting_changes=self.asked)

    def close(self) -> None:
        self.closed.set()


def test_a_probe_is_asked_instead_kept_and_closed_at_the_end_also_while_it_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(source_watch, "EVERY_SECONDS", 0.01)
    probe = _Probe()
    run = run_of(lambda offset, **_: pytest.fail("the source is asked without its probe"), probe)
    with watching_source(run):
        wait_for(lambda: probe.asked == 3)
        assert run.progress.snapshot().source.health.waiting_changes == 2
        assert not probe.closed.is_set()
    assert probe.closed.is_set()
