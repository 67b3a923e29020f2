"""The summary of a run's steps: own times add up, and a wait says what went on meanwhile."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator_runtime.timings.summary import NOTHING, StepTotal, totals, waits
from replicator_runtime.timings.trace_file import write_trace
from replicator_sdk.timeline import Step

DRIVER, EXECUTOR = 1, 2


def _step(name: str, began: float, ended: float, thread: str = "engine", process: int = DRIVER, **more: bool) -> Step:
    return Step(name, "", process, thread, began, ended - began, **more)


def _wait(name: str, began: float, ended: float, thread: str = "engine") -> Step:
    return _step(name, began, ended, thread, is_wait=True)


def _by_name(steps: list[Step]) -> dict[str, StepTotal]:
    return {total.name: total for total in totals(steps, DRIVER, 0.0)}


def test_own_time_is_without_the_steps_inside() -> None:
    found = _by_name([_step("a", 0, 10), _step("b", 2, 5), _step("c", 3, 4), _step("b", 6, 7), _step("d", 12, 13)])
    assert {name: (t.seconds, t.own, t.times, t.depth) for name, t in found.items()} == {
        "a": (10, 6, 1, 0),
        "b": (4, 3, 2, 1),
        "c": (1, 1, 1, 2),
        "d": (1, 1, 1, 0),
    }


def test_threads_of_one_kind_and_executors_are_summed_up() -> None:
    steps = [_step("a", 0, 1, "copy-1"), _step("a", 0, 2, "copy_12"), _step("a", 1, 2, "MainThread", EXECUTOR)]
    assert {(t.by, t.seconds) for t in totals(steps, DRIVER, 0.0)} == {("copy", 3), ("executors", 1)}


def test_a_wait_says_what_went_on_meanwhile() -> None:
    steps = [
        _wait("copies.wait", 0, 10),
        _step("copy", 1, 8, "copy-1"),
        _wait("executors.wait", 2, 7, "copy-1"),
        _step("chunk.read", 3, 5, "MainThread", EXECUTOR),
        _step("chunk.read", 4, 6, "MainThread", EXECUTOR + 1),
        _step("other", 20, 30),
    ]
    first, second = waits(steps, DRIVER)
    assert (first.name, first.by, first.seconds) == ("copies.wait", "engine", 10)
    assert dict(first.meanwhile) == pytest.approx({NOTHING: 5, "chunk.read": 3, "copy": 2})
    assert (second.name, second.by, second.seconds) == ("executors.wait", "copy", 5)
    assert dict(second.meanwhile) == pytest.approx({"chunk.read": 3, NOTHING: 2})


@st.composite
def _nested(draw: st.DrawFn, began: int = 0, ended: int = 1000, depth: int = 3) -> list[tuple[int, int]]:
    """Spans of one thread, each inside or beside the others."""
    cuts = sorted(draw(st.sets(st.integers(began, ended), max_size=6)))
    spans: list[tuple[int, int]] = []
    for low, high in zip(cuts[::2], cuts[1::2], strict=False):
        spans.append((low, high))
        if depth:
            spans += draw(_nested(low, high, depth - 1))
    return spans


@given(st.lists(_nested(), min_size=1, max_size=3))
def test_own_times_of_a_thread_add_up_to_the_time_in_which_it_did_something(
    threads: list[list[tuple[int, int]]],
) -> None:
    steps = [
        _step(f"s{n % 3}", *span, thread=chr(97 + t)) for t, spans in enumerate(threads) for n, span in enumerate(spans)
    ]
    own: defaultdict[str, float] = defaultdict(float)
    for total in totals(steps, DRIVER, 0.0):
        own[total.by] += total.own
    for t, spans in enumerate(threads):
        busy = {moment for low, high in spans for moment in range(low, high)}
        assert own[chr(97 + t)] == pytest.approx(len(busy))


def test_a_trace_has_every_step_in_microseconds(tmp_path: Path) -> None:
    steps = [_step("a", 100.5, 101.0), _wait("w", 101.0, 103.0), _step("b", 101, 102, "MainThread", EXECUTOR)]
    write_trace(tmp_path / "t.json", steps, DRIVER, 100.0)
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    drawn = [(e["name"], e["cat"], e["ts"], e["dur"], e["pid"]) for e in events if e["ph"] == "X"]
    assert drawn == [
        ("a", "step", 500_000, 500_000, DRIVER),
        ("w", "wait", 1_000_000, 2_000_000, DRIVER),
        ("b", "step", 1_000_000, 1_000_000, EXECUTOR),
    ]
    named = {(e["name"], e["args"]["name"]) for e in events if e["ph"] == "M"}
    assert named >= {("process_name", "replicator"), ("process_name", "executor"), ("thread_name", "engine")}
