"""`status --watch` shows the tables that need an operator first, follows the run, and ends at Ctrl-C."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from replicator_runtime.cli.watch import watch as module
from replicator_runtime.cli.watch.rows import HEADINGS, bytes_words, rows_of, summary_of
from replicator_runtime.cli.watch.watch import Look, drawn
from replicator_state import ReplicatorDirectory
from tests.runtime.cli.conftest import Replicator
from tests.runtime.cli.test_commands import status_of


def table(name: str, state: str = "REPLICATING", **more: Any) -> dict[str, Any]:
    usual = {"rows": 10, "snapshotPercent": None, "lagSeconds": 0.5, "rowsPerSecond": 2.0, "error": None}
    return {"database": "shop", "schema": "public", "table": name, "state": state, **usual, **more}


PAUSE = {"since": "2026-11-26T10:00:00", "resuming": False, "laneBytes": 2_500_000, "asks": None}
TABLES = [
    table("current", lagSeconds=0.1),
    table("late", lagSeconds=120.0),
    table("paused", "PAUSED", pause=PAUSE),
    table("copied", "SNAPSHOTTING", snapshotPercent=41.7, lagSeconds=None),
    table("waiting", waitsFor="it waits until it is listed"),
    table("asking", "PAUSED", pause={**PAUSE, "asks": "drop column city"}),
    table("failing", "FAILING", error={"code": "RPL-5001", "message": "too long", "hint": "widen"}),
]


def status(tables: list[dict[str, Any]], phase: str = "streaming", **more: Any) -> dict[str, Any]:
    made = status_of(datetime.now(UTC), phase) | {"runId": "r1", "sourceError": None, "rowsPerSecond": 12.0}
    return {**made, "tables": tables, **more}


def shown(look: Look, width: int = 160, height: int = 40) -> str:
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=False)
    console.print(drawn(look, height))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_tables_that_need_an_operator_are_first_and_then_those_that_lag_most() -> None:
    rows = rows_of(status(TABLES))
    assert [row.table.removeprefix("public.") for row in rows] == [
        "failing", "asking", "waiting", "copied", "paused", "late", "current",
    ]  # fmt: skip
    assert rows[0].why == "RPL-5001: too long"
    assert rows[1].why == "waits for a decision: drop column city"
    assert dict(zip(HEADINGS, rows[4].cells, strict=True)) == {
        "table": "public.paused",
        "state": "PAUSED",
        "rows": "10",
        "snapshot": "",
        "rows/s": "2",
        "lag": "0.5 s",
        "held": "2.5 MB",
        "what": "paused since 2026-11-26T10:00:00",
    }
    assert rows[3].cells[3] == "42 %"


def test_the_first_line_sums_up_the_run_and_what_the_source_holds() -> None:
    found = status(TABLES, source={"heldBytes": 1_234_000_000, "secondsLeft": 7260.0})
    said = summary_of(found, rows_of(found))
    assert "shop (namespace default, generation 1): streaming" in said
    assert "1 failing · 2 paused · 3 replicating · 1 snapshotting · 12 rows/s · lag 1.5 s" in said
    assert "source holds 1.2 GB · 2 h 1 min until its limit" in said
    assert "holds" not in summary_of(status(TABLES), [])
    topic = {
        "waitingBytes": 5_000,
        "waitingChanges": 70,
        "secondsLeft": 60.0,
        "limitedBy": "retention.ms of the topic a",
    }
    assert "5.0 kB wait at the source · 1 min 0 s until retention.ms of the topic a" in summary_of(
        status(TABLES, source=topic), []
    )
    assert "70 changes wait" in summary_of(status(TABLES, source={"waitingChanges": 70}), [])
    assert [bytes_words(n) for n in (0, 999, 1000, 1e18)] == ["0 B", "999 B", "1.0 kB", "1,000.0 PB"]


def test_of_a_thousand_tables_those_that_fit_are_drawn_within_a_moment() -> None:
    tables = [table(f"t{n:04}", lagSeconds=float(n)) for n in range(999)] + [TABLES[-1]]
    text = json.dumps(status(tables))
    began = time.process_time()
    found = json.loads(text)
    said = shown(Look(found, "", rows_of(found)), height=24)
    assert time.process_time() - began < 1.0, "measured: 60 ms"
    lines = said.splitlines()
    assert len(lines) <= 24
    assert "public.failing" in lines[4]
    assert "public.t0998" in lines[5]
    assert lines[-1].startswith("… and 981 more, of which 0 are failing, 0 paused, 981 replicating")


def test_names_and_messages_cannot_control_the_terminal_and_long_ones_are_cut() -> None:
    error = {"code": "RPL-1", "message": "x" * 500, "hint": ""}
    found = status([table("e\x1b[2Jvil", "FAILING", error=error), table("n" * 300)])
    said = shown(Look(found, "", rows_of(found)), width=120)
    assert "\x1b" not in said
    assert max(map(len, said.splitlines())) <= 120


def write(base: Path, found: dict[str, Any]) -> None:
    ReplicatorDirectory(str(base), "default", "shop").states().put_status(found)


def test_a_look_at_the_stored_status_of_a_thousand_tables_takes_a_moment(tmp_path: Path) -> None:
    """All of a look: the newest generation is found, its status read, checked for a run that is gone, sorted and drawn."""
    tables = [table(f"t{n:04}", lagSeconds=float(n)) for n in range(999)] + [TABLES[-1]]
    counters = {f"target.{name}": 10**6 for name in ("dml.insert", "dml.update", "dml.delete", "ddl", "snapshot.rows")}
    metrics = {"tables": {f"shop.public.{one['table']}": {"counters": counters, "gauges": {}} for one in tables}}
    write(tmp_path, status(tables, metrics={"counters": counters, "gauges": {}, **metrics}))
    directory, looked = ReplicatorDirectory(str(tmp_path), "default", "shop"), 5
    said, began = "", time.process_time()
    for _ in range(looked):
        said = shown(Look.at(directory), height=24)
    assert (time.process_time() - began) / looked < 0.5, "measured: 40 ms"
    assert "public.failing" in said.splitlines()[4]


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Has steps done before each look of a watch, and a signal sent after the last."""

    def plan(*steps: Callable[[], None], number: int = signal.SIGINT) -> None:
        left = list(steps)
        at = Look.at

        def look(directory: ReplicatorDirectory) -> Look:
            if left:
                left.pop(0)()
            else:
                signal.raise_signal(number)
            return at(directory)

        monkeypatch.setattr(module.Look, "at", look)

    return plan


def test_json_lines_follow_the_run_and_end_at_a_signal_with_its_code(
    replicator: Replicator, tmp_path: Path, looks: Callable[..., None]
) -> None:
    directory = ReplicatorDirectory(str(tmp_path), "default", "shop")
    directory.acquire("works").release()
    file = tmp_path / "default" / "shop" / "1" / "state.json"
    first, second = status(TABLES), status(TABLES[:1], "done")

    def nothing() -> None:
        """Nothing is written between these looks."""

    def half() -> None:
        file.write_text('{"half', "utf-8")

    looks(nothing, lambda: write(tmp_path, first), nothing, half, lambda: write(tmp_path, second), file.unlink)
    done = replicator("status", "shop", "--base", tmp_path, "--watch", "--every", "0.1", "--json")
    assert done.exit_code == 130
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert {line["schema"] for line in lines} == {"replicator.status/v1"}
    phases = [line["data"] and line["data"]["phase"] for line in lines]
    assert phases == [None, "streaming", None, "done", None], "each once"
    assert "no status yet" in lines[0]["warnings"][0]
    assert "RPL-7122" in lines[2]["warnings"][0]


def test_sigterm_ends_it_with_its_code_and_text_is_printed_where_there_is_no_terminal(
    replicator: Replicator, tmp_path: Path, looks: Callable[..., None]
) -> None:
    looks(lambda: write(tmp_path, status(TABLES)), number=signal.SIGTERM)
    ReplicatorDirectory(str(tmp_path), "default", "shop").acquire("works").release()
    done = replicator("status", "shop", "--base", tmp_path, "--watch")
    assert done.exit_code == 143
    assert "public.failing" in done.stdout.splitlines()[3]


def test_after_a_reset_the_new_generation_is_shown(
    replicator: Replicator, tmp_path: Path, looks: Callable[..., None]
) -> None:
    write(tmp_path, status(TABLES))

    def reset() -> None:
        ReplicatorDirectory(str(tmp_path), "default", "shop", generation=2).states().put_status(
            status(TABLES[:1], generation=2)
        )

    def nothing() -> None:
        """Nothing."""

    looks(nothing, reset)
    done = replicator("status", "shop", "--base", tmp_path, "--watch", "--every", "0.1", "--json")
    assert [json.loads(line)["data"]["generation"] for line in done.stdout.splitlines()] == [1, 2]


def test_an_unknown_replicator_is_refused_as_without_watching(replicator: Replicator, tmp_path: Path) -> None:
    done = replicator("status", "shop", "--base", tmp_path, "--watch")
    assert (done.exit_code, "RPL-1201" in done.stderr) == (3, True)


def test_on_a_terminal_it_draws_again_and_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    write(tmp_path, status(TABLES))
    own, other = pty.openpty()
    code = "from replicator_runtime.cli import main; main()"
    arguments = ["status", "shop", "--base", str(tmp_path), "--watch", "--every", "0.1"]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "140", "LINES": "30"}
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdin=other, stdout=other, stderr=other, env=environment
    )
    os.close(other)
    seen = b""
    os.set_blocking(own, False)

    def read_until(wanted: bytes) -> None:
        nonlocal seen
        until = time.monotonic() + 120
        while wanted not in seen:
            assert time.monotonic() < until, seen[-2000:]
            try:
                seen += os.read(own, 65536)
            except BlockingIOError:
                time.sleep(0.02)
            except OSError:  # the process has ended
                break

    try:
        read_until(b"public.failing")
        write(tmp_path, status([table("afterwards")]))
        read_until(b"public.afterwards")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        read_until(b"\x1b[?25h\x1b[?1049l")
        assert seen.count(b"\x1b[?1049h") == 1
        assert b"\x1b[?25h" in seen, "the cursor is shown again"
    finally:
        process.kill()
        process.wait(60)
        os.close(own)
