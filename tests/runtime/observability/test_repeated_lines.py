"""A storm of equal errors writes few lines, says how many it left out, and hides no other kind of line."""

from __future__ import annotations

import io
import json
import logging
import math
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from replicator_runtime.observability.logs import configure_logging, get_logger
from replicator_runtime.observability.repeated_lines import FIRST_SPAN, LINES, LONGEST_SPAN, RepeatedLines


class Clock:
    """A clock that only the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def record(event: str = "table.failing", code: str = "RPL-4401", level: int = logging.ERROR) -> logging.LogRecord:
    return logging.LogRecord("engine", level, "", 0, {"event": event, "code": code, "table": "t"}, None, None)


def written(lines: RepeatedLines, count: int, each: logging.LogRecord | None = None) -> list[logging.LogRecord]:
    records = [record() if each is None else each for _ in range(count)]
    return [one for one in records if lines.filter(one)]


def left_out(line: logging.LogRecord) -> int:
    message: Any = line.msg
    return int(message.get("left_out", 0))


def test_a_thousand_tables_that_fail_at_once_write_a_hundred_lines() -> None:
    assert len(written(RepeatedLines(Clock()), 1000)) == LINES


def test_the_first_line_after_a_storm_says_how_many_were_left_out() -> None:
    clock = Clock()
    lines = RepeatedLines(clock)
    written(lines, 1000)
    clock.now += FIRST_SPAN
    (first, second) = written(lines, 2)
    assert left_out(first) == 1000 - LINES
    assert left_out(second) == 0


def test_a_storm_of_a_day_writes_a_few_lines_an_hour() -> None:
    clock = Clock()
    lines = RepeatedLines(clock)
    total = 0
    hours = 24
    for _ in range(hours * 60):
        total += len(written(lines, 120))
        clock.now += 60
    assert total < LINES * (hours + math.log2(LONGEST_SPAN / FIRST_SPAN) + 2)


def test_a_new_storm_long_after_another_shows_its_beginning_at_once() -> None:
    clock = Clock()
    lines = RepeatedLines(clock)
    for _ in range(6 * 60):
        written(lines, 200)
        clock.now += 60
    clock.now += 3 * LONGEST_SPAN
    assert len(written(lines, 50)) == 50


def test_other_codes_other_events_and_lower_levels_are_written_beside_a_storm() -> None:
    lines = RepeatedLines(Clock())
    written(lines, 1000)
    assert lines.filter(record(code="RPL-4402"))
    assert lines.filter(record(event="run.retry"))
    assert len(written(lines, 1000, record(level=logging.INFO))) == 1000


@given(st.lists(st.tuples(st.floats(0, 5000), st.integers(0, 3)), max_size=300))
def test_every_line_is_written_or_counted_once(steps: list[tuple[float, int]]) -> None:
    clock = Clock()
    lines = RepeatedLines(clock)
    given_lines, passed = 0, list[logging.LogRecord]()
    for seconds, many in steps:
        clock.now += seconds
        given_lines += 60 * many
        passed += written(lines, 60 * many)
    clock.now += 2 * LONGEST_SPAN
    passed += written(lines, 1)
    counted = sum(left_out(one) for one in passed)
    assert given_lines + 1 == len(passed) + counted


@pytest.fixture
def _as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(capture=False)
    structlog.reset_defaults()


@pytest.mark.usefixtures("_as_before")
def test_the_log_of_a_process_has_it_for_our_lines_and_those_of_libraries() -> None:
    stream = io.StringIO()
    configure_logging("INFO", "json", stream=stream)
    for number in range(500):
        get_logger("engine").error("table.failing", table=f"t{number}", code="RPL-4401")
        logging.getLogger("library").warning("no answer from %s", number)
    events = [json.loads(line)["event"] for line in stream.getvalue().splitlines()]
    assert len(events) == 2 * LINES
