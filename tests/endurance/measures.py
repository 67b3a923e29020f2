"""What is measured after each round, and whether it stays the same from the first tenth of the rounds to the last."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
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
        commit_ms: Time of the round divided by the commits in it; all tables together. Also what else the machine does is in it.
        commit_cpu_ms: The same for the processor time of the replicator and its Java.
        files: Files of the target's tables on disk; 0 where the target has none.
        state_files: Files of the state.
        state_kb: Their size.
    """

    python_mb: float
    java_mb: float
    commit_ms: float
    commit_cpu_ms: float
    files: float
    state_files: float
    state_kb: float


NOT_HELD = frozenset({"commit_ms"})
"""Reported, but not held: it depends on what else the machine does."""


def sample(
    process: psutil.Process | None, seconds: float, cpu_seconds: float, commits: int, lake: Path, state: Path
) -> Sample:
    """Measure now; a process that was killed has no memory."""
    python, java = _memory(process)
    kept = [path.stat().st_size for path in state.rglob("*") if path.is_file()]
    files = sum(1 for path in lake.rglob("*") if path.is_file())
    each = 1000 / max(1, commits)
    return Sample(python, java, each * seconds, each * cpu_seconds, files, len(kept), sum(kept) / 1000)


def cpu_seconds(process: psutil.Process | None) -> float:
    """Processor time that a replicator and its Java have taken since they began; 0 when it does not live."""
    if process is None:
        return 0.0
    try:
        times = [each.cpu_times() for each in [process, *process.children(recursive=True)]]
    except psutil.NoSuchProcess:
        return 0.0
    return float(sum(each.user + each.system for each in times))


def _memory(process: psutil.Process | None) -> tuple[float, float]:
    if process is None:
        return 0.0, 0.0
    try:
        java = [child.memory_info().rss for child in process.children(recursive=True) if child.name() == "java"]
        return process.memory_info().rss / 1e6, sum(java) / 1e6
    except psutil.NoSuchProcess:
        return 0.0, 0.0


@dataclass(frozen=True, slots=True)
class Tenths:
    """A measure's medians."""

    first: float
    last: float

    @property
    def is_flat(self) -> bool:
        """Whether the last tenth is at most a fifth above the first."""
        return self.last <= self.first * (1 + ALLOWED)


def tenths(samples: Sequence[Sample]) -> Mapping[str, Tenths]:
    """By measure, after the warm-up; rounds that were killed have no memory and do not count for it."""
    samples = samples[int(WARM_UP * len(samples)) :]
    size = max(1, len(samples) // 10)
    return {
        measure.name: Tenths(*(_median(measure.name, part) for part in (samples[:size], samples[-size:])))
        for measure in fields(Sample)
    }


def _median(measure: str, samples: Sequence[Sample]) -> float:
    values = [float(asdict(one)[measure]) for one in samples]
    return statistics.median([value for value in values if value] or [0.0])
