"""What is measured after each round, and whether it stays the same from the first tenth of the rounds to the last."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

ALLOWED = 0.2
"""By how much a measure of the last tenth may be above the first tenth's."""
WARM_UP = 0.2
"""The share of the rounds before the first tenth: what is kept for the last 20 runs or 50 offsets fills up in them."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One round.

    Attributes:
        python_mb: Resident memory of the replicator's own process at the end of the round.
        java_mb: The same of its Java.
        open_files: Files and sockets that both have open.
        files: What the target keeps, as `MeasuredTarget.files` counts it.
        state_files: Files of the state.
        state_kb: Their size.
        commits: Of all tables together.
        seconds: How long the round took.
        cpu_seconds: Processor time of the replicator and its Java, maintenance included.
    """

    python_mb: float
    java_mb: float
    open_files: float
    files: float
    state_files: float
    state_kb: float
    commits: int
    seconds: float
    cpu_seconds: float


_SIZES = ("python_mb", "java_mb", "open_files", "files", "state_files", "state_kb")
NOT_HELD = frozenset({"commit_ms", "files"})
"""Reported, but not held: they depend on what else the machine does, and on how fast commits come."""


def sample(
    process: psutil.Process | None, seconds: float, cpu_seconds: float, commits: int, files: int, state: Path
) -> Sample:
    """Measure now; a process that was killed has no memory, and nothing open."""
    python, java, opened = _held(process)
    kept = [path.stat().st_size for path in state.rglob("*") if path.is_file()]
    return Sample(python, java, opened, files, len(kept), sum(kept) / 1000, commits, seconds, cpu_seconds)


def cpu_seconds(process: psutil.Process | None) -> float:
    """Processor time that a replicator and its Java have taken since they began; 0 when it does not live."""
    if process is None:
        return 0.0
    try:
        times = [each.cpu_times() for each in [process, *process.children(recursive=True)]]
    except psutil.NoSuchProcess:
        return 0.0
    return float(sum(each.user + each.system for each in times))


def _held(process: psutil.Process | None) -> tuple[float, float, float]:
    """Memory of the process and of its Java, and what both have open."""
    if process is None:
        return 0.0, 0.0, 0.0
    try:
        java = [child for child in process.children(recursive=True) if child.name() == "java"]
        memory = sum(child.memory_info().rss for child in java)
        opened = sum(each.num_fds() for each in [process, *java])
        return process.memory_info().rss / 1e6, memory / 1e6, opened
    except psutil.NoSuchProcess:
        return 0.0, 0.0, 0.0


@dataclass(frozen=True, slots=True)
class Tenths:
    """A measure of the two."""

    first: float
    last: float

    @property
    def is_flat(self) -> bool:
        """Whether the last tenth is at most a fifth above the first."""
        return self.last <= self.first * (1 + ALLOWED)


def tenths(samples: Sequence[Sample]) -> Mapping[str, Tenths]:
    """By measure, after the warm-up.

    Sizes are medians; rounds that were killed have no memory and do not count for it. `commit_ms` and `commit_cpu_ms` are all
    time and all processor time of a tenth divided by its commits, since maintenance comes in some rounds only. `files_kept` are
    the files for each commit a second: they are kept for a time, so there are as many more as commits come faster.
    """
    samples = samples[int(WARM_UP * len(samples)) :]
    size = max(1, len(samples) // 10)
    first, last = _measures(samples[:size]), _measures(samples[-size:])
    return {name: Tenths(first[name], last[name]) for name in first}


def _measures(samples: Sequence[Sample]) -> Mapping[str, float]:
    commits = max(1, sum(one.commits for one in samples))
    seconds = sum(one.seconds for one in samples)
    sizes = {name: _median([getattr(one, name) for one in samples]) for name in _SIZES}
    return {
        **sizes,
        "files_kept": sizes["files"] * seconds / commits,
        "commit_ms": 1000 * seconds / commits,
        "commit_cpu_ms": 1000 * sum(one.cpu_seconds for one in samples) / commits,
    }


def _median(values: Sequence[float]) -> float:
    return statistics.median([value for value in values if value] or [0.0])
