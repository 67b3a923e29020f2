"""Kills of processes: made, waited for and counted, with those that did harm without a part of the recovery."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.end_to_end.replicator import Running

AT_RANDOM = "at random"

kills: list[str] = []
"""Where each was killed."""
harms: list[str] = []
"""Which part of the recovery was missing."""


def killed(running: Running, point: str, seconds: float = 300) -> None:
    """Wait until the run has killed itself at `point`."""
    ended = running.wait(seconds)
    assert ended.status == -signal.SIGKILL, (
        f"not killed at {point}, ended with {ended.status}:\n{ended.messages[-3000:]}"
    )
    kills.append(point)


def kill(running: Running) -> None:
    """Kill a run from outside, whatever it is doing."""
    assert running.process.poll() is None, running.log.read_text(errors="replace")[-3000:]
    running.kill()
    kills.append(AT_RANDOM)


def summary() -> str:
    """One line; empty when nothing was killed."""
    if not kills:
        return ""
    named = len({point for point in kills if point != AT_RANDOM})
    text = f"{len(kills)} processes killed: at {named} named points, {kills.count(AT_RANDOM)} times at random"
    return text + (
        f"; {len(harms)} kills did harm without one of {len(set(harms))} parts of the recovery" if harms else ""
    )
