from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from replicator_runtime.cli.display import LiveTable, PlainLines, open_display, seconds_words
from replicator_runtime.engine.run_state.progress import RunView, TableView
from replicator_runtime.engine.tables.table_state import TableState
from replicator_sdk import TableId

ORDERS, ITEMS = TableId("d", "orders", "public"), TableId("d", "items\x1b[2J", "public")


def view(*tables: TableView, phase: str = "streaming", lag: float | None = 0.5) -> RunView:
    return RunView(phase, tables, 1234.0, lag)


COPYING = TableView(ORDERS, TableState.SNAPSHOTTING, 120_000, 45.0, 12.0, 30_000.0)
FOLLOWING = TableView(ORDERS, TableState.REPLICATING, 7, rows_per_second=3.0, lag_seconds=0.5)
FAILING = TableView(ITEMS, TableState.FAILING, error="RPL-5001: too long")


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What was said since, without the time of day."""
    shown = capsys.readouterr()
    assert shown.out == ""
    return [re.sub(r"^\d\d:\d\d:\d\d ", "", line) for line in shown.err.splitlines()]


def test_plain_lines_report_a_change_once(capsys: pytest.CaptureFixture[str]) -> None:
    display = PlainLines()
    display.update(view(COPYING, phase="snapshot"))
    assert lines(capsys) == ["snapshot", "public.orders: SNAPSHOTTING"]
    display.update(view(COPYING, phase="snapshot"))
    assert lines(capsys) == []
    display.update(view(FOLLOWING, FAILING))
    assert lines(capsys) == [
        "streaming",
        "public.orders: REPLICATING",
        "public.items\\x1b[2J: FAILING RPL-5001",
    ]


def test_plain_lines_sum_up_at_every_interval_and_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    display = PlainLines(interval_seconds=0)
    display.update(view(COPYING))
    assert lines(capsys)[2:] == [
        "public.orders: 120,000 rows, 45 % about 12 s left, 30,000 rows/s",
        "streaming: 1 snapshotting, 1,234 rows/s, lag 0.5 s",
    ]
    display = PlainLines()
    display.close(view(FOLLOWING, lag=None))
    assert lines(capsys)[-1] == "streaming: 1 replicating, 1,234 rows/s, lag unknown"


def test_a_long_start_says_what_is_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    display = PlainLines(interval_seconds=0)
    starting = replace(view(TableView(ORDERS), phase="starting", lag=None), doing="starts the target")
    for _ in range(2):
        display.update(starting)
    assert lines(capsys)[2:] == ["starting: 1 pending, 1,234 rows/s, lag unknown, starts the target"]
    drawn = Console(file=io.StringIO(), force_terminal=True, width=120, height=20)
    table = LiveTable(drawn)
    table.close(starting)
    assert "starts the target" in drawn.file.getvalue()  # type: ignore[attr-defined]


def test_the_last_line_of_a_run_that_has_ended_speaks_of_no_lag(capsys: pytest.CaptureFixture[str]) -> None:
    PlainLines().close(view(FOLLOWING, phase="done", lag=None))
    assert lines(capsys)[-1] == "done: 1 replicating, 1,234 rows/s"


def test_why_a_run_failed_is_left_to_its_last_line(capsys: pytest.CaptureFixture[str]) -> None:
    PlainLines().close(
        RunView("failed", (), 0.0, None, message="RPL-3403: the target cannot write. Next: grant rights")
    )
    assert lines(capsys)[0] == "failed RPL-3403"


def test_a_summary_without_news_is_repeated_after_a_minute(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr("replicator_runtime.cli.display.time.monotonic", lambda: now[0])
    display = PlainLines()
    said = []
    for _ in range(13):
        now[0] += 10
        display.update(view(FOLLOWING))
        said.append(len([line for line in lines(capsys) if "1 replicating" in line]))
    assert said == [1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1]


def test_the_live_table_shows_state_rows_percent_time_left_speed_and_lag() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=160, height=24, color_system=None)
    display = LiveTable(console)
    display.close(view(FOLLOWING, FAILING, COPYING))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    rows = [" ".join(line.split()) for line in shown.splitlines()]
    assert "public.orders SNAPSHOTTING 120,000 45 % about 12 s left 30,000" in rows
    assert "public.orders REPLICATING 7 3 0.5 s" in rows
    assert any("public.items\\x1b[2J FAILING RPL-5001: too long" in row for row in rows)


def test_the_live_table_fits_the_terminal_and_shows_failing_tables_first() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100, height=10, color_system=None)
    many = [TableView(TableId("d", f"t{i:03d}", "s"), TableState.REPLICATING) for i in range(300)]
    display = LiveTable(console)
    display.close(view(*many, FAILING))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert shown.index("FAILING RPL-5001") < shown.index("s.t000")
    assert "… and 296 more" in shown
    assert "s.t010" not in shown


def test_output_that_is_not_a_terminal_gets_plain_lines() -> None:
    assert isinstance(open_display(), PlainLines)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(None, "unknown"), (0.04, "0.0 s"), (9.94, "9.9 s"), (59.4, "59 s"), (61, "1 min 1 s"), (7260, "2 h 1 min")],
)
def test_durations_are_for_people(seconds: float | None, words: str) -> None:
    assert seconds_words(seconds) == words
