"""Steps are recorded when asked for, and cost nothing else."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from replicator_sdk.timeline import Step, Timeline, end_recording, record, recording, step, steps, timed, waiting


@pytest.fixture(autouse=True)
def _off() -> Iterator[None]:
    yield
    end_recording()


def test_nothing_is_recorded_unless_asked_for() -> None:
    with step("a"):
        pass
    assert recording() is None
    parts = [1, 2]
    assert timed("part.read", parts) is parts


def test_a_step_has_its_name_table_thread_and_length() -> None:
    recorded = record()
    before = time.time()
    with step("chunk.read", "main.a"):
        time.sleep(0.02)
    (one,) = recorded.steps
    assert (one.name, one.about, one.thread) == ("chunk.read", "main.a", threading.current_thread().name)
    assert 0.02 <= one.seconds < 5
    assert before - 0.01 <= one.began <= before + 5
    assert not one.is_wait


def test_a_step_that_fails_is_recorded() -> None:
    recorded = record()
    with pytest.raises(ValueError, match="no"), step("a"):
        raise ValueError("no")
    assert [one.name for one in recorded.steps] == ["a"]


def test_each_part_that_is_made_is_a_step_and_so_is_the_end() -> None:
    recorded = record()
    assert list(timed("part.read", iter("ab"))) == ["a", "b"]
    assert [one.name for one in recorded.steps] == ["part.read"] * 3


def test_steps_of_all_threads_are_recorded() -> None:
    recorded = record()

    def work() -> None:
        for _ in range(200):
            with step("a"):
                pass

    threads = [threading.Thread(target=work, name=f"worker-{n}") for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(recorded.steps) == 800
    assert {one.thread for one in recorded.steps} == {f"worker-{n}" for n in range(4)}


def test_a_recording_that_ended_gets_no_more() -> None:
    recorded = record()
    end_recording()
    with step("a"):
        pass
    assert recorded.steps == []


def test_a_wait_in_short_looks_is_one_step() -> None:
    recorded = record()
    for _ in range(50):
        with waiting("changes.wait"):
            time.sleep(0.001)
    with step("a"):
        pass
    with waiting("changes.wait"):
        pass
    names = [one.name for one in recorded.steps]
    assert names.count("changes.wait") < 25  # a busy machine may stop the thread between two looks
    assert names[-2:] == ["a", "changes.wait"]
    assert sum(one.seconds for one in recorded.steps if one.is_wait) >= 0.05


def test_a_long_run_keeps_a_bounded_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "MOST_STEPS", 3)
    recorded = Timeline()
    recorded.add(Step(str(n), "", 1, "t", float(n), 0.5) for n in range(5))
    recorded.add([Step("w", "", 1, "t", 6.0, 0.5, is_wait=True)])
    assert [one.name for one in recorded.steps] == ["0", "1", "2"]
    assert recorded.left_out == 3
