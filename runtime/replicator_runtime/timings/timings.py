"""Records the steps of the run that a command makes, and shows them at its end."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import psutil

from replicator_runtime.timings.summary import NOTHING, StepTotal, Wait, totals, waits
from replicator_runtime.timings.trace_file import write_trace
from replicator_sdk.timeline import Step, Timeline, end_recording, record

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_BESIDE: Final = 6


class Timings:
    """Records while it is entered; used by one thread.

    Args:
        trace_file: Where to write each step; nowhere when left out.
        show: Prints one line; called when it is left, also by an error.
        warn: Likewise, a warning.

    Attributes:
        data: What was printed, in JSON values; None before it is left.
    """

    def __init__(self, trace_file: Path | None, show: Callable[[str], None], warn: Callable[[str], None]) -> None:
        self.data: dict[str, Any] | None = None
        self._trace_file, self._show, self._warn = trace_file, show, warn
        self._timeline = Timeline()
        self._start = 0.0

    def __enter__(self) -> Self:
        self._timeline = record()
        seconds = _age()
        self._start = time.time() - seconds
        thread = threading.current_thread().name
        self._timeline.add([Step("python.start", "", os.getpid(), thread, self._start, seconds)])
        return self

    def __exit__(self, *_: object) -> None:
        end_recording()
        steps, driver, seconds = list(self._timeline.steps), os.getpid(), time.time() - self._start
        listed, waited = totals(steps, driver, self._start), waits(steps, driver)
        self.data = {
            "seconds": round(seconds, 3),
            "leftOut": self._timeline.left_out,
            "steps": [_rounded(asdict(total)) for total in listed],
            "waits": [_rounded(asdict(one)) for one in waited],
        }
        for line in _lines(seconds, self._timeline.left_out, listed, waited):
            self._show(line)
        self._write(steps, driver)

    def _write(self, steps: list[Step], driver: int) -> None:
        """A file that cannot be written is no reason for the run to have failed."""
        if self._trace_file is None:
            return
        try:
            write_trace(self._trace_file, steps, driver, self._start)
        except OSError as err:
            self._warn(f"the trace cannot be written to {self._trace_file}: {err.strerror}")
        else:
            self._show(f"trace for https://ui.perfetto.dev: {self._trace_file}")


def _age() -> float:
    """Seconds since this process began; psutil's time of the beginning is up to a second wrong, as the system's own start is to it."""
    stat = Path("/proc/self/stat")
    if not stat.exists() or not hasattr(time, "CLOCK_BOOTTIME"):
        began: float = psutil.Process().create_time()
        return max(0.0, time.time() - began)
    ticks = int(stat.read_text().rpartition(")")[2].split()[19])  # field 22: clock ticks from the boot to the start
    age: float = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return age


def _rounded(values: dict[str, Any]) -> dict[str, Any]:
    """JSON's names, and milliseconds."""
    renamed = {"isWait" if key == "is_wait" else key: value for key, value in values.items()}
    if "meanwhile" in renamed:
        renamed["meanwhile"] = {name: round(seconds, 3) for name, seconds in renamed["meanwhile"]}
    return {key: round(value, 3) if isinstance(value, float) else value for key, value in renamed.items()}


def _lines(seconds: float, left_out: int, listed: list[StepTotal], waited: list[Wait]) -> list[str]:
    lines = [f"where the time went: {seconds:.2f} s from the start of the process"]
    lines.append(f"{'began':>8} {'seconds':>9} {'own':>9} {'times':>7}  step")
    for total in listed:
        name = f"{'  ' * total.depth}{total.name}"
        wait = ", waits" if total.is_wait else ""
        lines.append(
            f"{total.began:8.2f} {total.seconds:9.2f} {total.own:9.2f} {total.times:7,}  {name} ({total.by}{wait})"
        )
    if left_out:
        lines.append(f"{left_out:,} later steps are not in it")
    if waited:
        lines.append("what was waited for, and what went on meanwhile (seconds)")
    for one in waited:
        beside = ", ".join(f"{name} {length:.2f}" for name, length in one.meanwhile[:_MOST_BESIDE] if length >= 0.005)
        lines.append(f"{one.seconds:8.2f}  {one.name} ({one.by}): {beside or NOTHING}")
    return lines
