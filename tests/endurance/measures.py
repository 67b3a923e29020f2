"""What is measured after each round, and whether it stays the same from the first tenth of the rounds to the last."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

_PROBED = 50_000
ALLOWED = 0.2
"""By how much a measure of the last tenth may be above the first tenth's."""
WARM_UP = 0.2
"""The share of the rounds before the first tenth: what is kept for a time, or for the last 20 runs, fills up in them."""
CYCLE = 10
"""After so many rounds their ends repeat: memory, and what is open, depend on how long ago the process was killed."""
OFFSETS_SECONDS = 180.0
"""For so long older offsets are kept, and the schemas by which a replay from one of them would read."""
DELETED_SECONDS = 180.0
"""For so long Delta keeps files that no version has any more."""
CLEAN_UP_SECONDS = 240.0
"""So often such files, and old logs, are deleted: their number goes up between, and the work comes in some rounds only."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One round.

    Attributes:
        python_mb: Resident memory of the replicator's own process at the end of the round.
        java_mb: The same of its Java.
        open_files: Files and sockets that both have open.
        files: What the target keeps, as `MeasuredTarget.files` counts it.
        state_files: Files of the state, but of its log lines, which grow up to a bound of their own.
        state_kb: Their size.
        commits: Of all tables together.
        seconds: How long the round took.
        cpu_seconds: Processor time of the replicator and its Java, maintenance included.
        probe_ms: Processor time of `probe` meanwhile; the median.
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
    probe_ms: float


_SIZES = ("python_mb", "java_mb", "open_files", "files", "state_files", "state_kb")
NOT_HELD = frozenset({"commit_ms", "commit_cpu_ms", "files"})
"""Reported, but not held: they depend on what else the machine does, and on how fast commits come."""


def probe() -> float:
    """The processor time in milliseconds that a fixed piece of work takes now.

    Of a machine that is shared, the same work has taken 0.6 s of processor time and, an hour later, 1.5 s.
    """
    began = time.thread_time()
    sum(number * number for number in range(_PROBED))
    return 1000 * (time.thread_time() - began)


def sample(
    process: psutil.Process | None,
    seconds: float,
    cpu_seconds: float,
    commits: int,
    files: int,
    state: Path,
    probes: Sequence[float],
) -> Sample:
    """Measure now; a process that was killed has no memory, and nothing open."""
    python, java, opened = _held(process)
    files_of_state = (p for p in state.rglob("*") if p.is_file() and "logs" not in p.relative_to(state).parts)
    kept = [path.stat().st_size for path in files_of_state]
    return Sample(
        python, java, opened, files, len(kept), sum(kept) / 1000, commits, seconds, cpu_seconds, _median(probes)
    )


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
class Basis:
    """What it takes to say of a measure whether it is flat.

    Attributes:
        tenth_seconds: How long a tenth lasts.
        warm_up_seconds: How long the rounds before the first tenth last.
    """

    tenth_seconds: float = 0.0
    warm_up_seconds: float = 0.0


_FILES = Basis(CLEAN_UP_SECONDS, DELETED_SECONDS + CLEAN_UP_SECONDS)
_STATE = Basis(warm_up_seconds=OFFSETS_SECONDS)
_WORK = Basis(tenth_seconds=CLEAN_UP_SECONDS)
BASES: Mapping[str, Basis] = {
    "files": _FILES,
    "files_kept": _FILES,
    "state_files": _STATE,
    "state_kb": _STATE,
    "commit_ms": _WORK,
    "commit_cpu_ms": _WORK,
    "commit_probes": _WORK,
}
"""By measure; the others need a tenth of one whole cycle only, as these do."""


@dataclass(frozen=True, slots=True)
class Tenths:
    """A measure of the two."""

    first: float
    last: float

    @property
    def is_flat(self) -> bool:
        """Whether the last tenth is at most a fifth above the first."""
        return self.last <= self.first * (1 + ALLOWED)


def too_short(samples: Sequence[Sample]) -> Mapping[str, str]:
    """By measure of which the samples are too few to say whether it is flat: what is missing."""
    warm_up, size = _parts(samples)
    first = samples[warm_up : warm_up + size]
    found = {}
    for name in _measures(first):
        basis = BASES.get(name, Basis())
        lacks = [
            f"{what} of {have:.0f} {unit} instead of {least:.0f}"
            for what, unit, have, least in (
                ("tenths", "rounds", len(first), CYCLE - 1),  # the round that stops twice is not measured
                ("tenths", "s", sum(one.seconds for one in first), basis.tenth_seconds),
                ("a warm-up", "s", sum(one.seconds for one in samples[:warm_up]), basis.warm_up_seconds),
            )
            if have < least
        ]
        if lacks:
            found[name] = ", ".join(lacks)
    return found


def tenths(samples: Sequence[Sample]) -> Mapping[str, Tenths]:
    """By measure, after the warm-up.

    Sizes are medians; rounds that were killed have no memory and do not count for it. `commit_ms` and `commit_cpu_ms` are all
    time and all processor time of a tenth divided by its commits, since maintenance comes in some rounds only; `commit_probes` is the
    processor time in units of `probe`. `files_kept` are
    the files for each commit a second: they are kept for a time, so there are as many more as commits come faster.
    """
    warm_up, size = _parts(samples)
    first, last = _measures(samples[warm_up : warm_up + size]), _measures(samples[-size:])
    return {name: Tenths(first[name], last[name]) for name in first}


def _parts(samples: Sequence[Sample]) -> tuple[int, int]:
    """How many samples the warm-up and each tenth have."""
    warm_up = int(WARM_UP * len(samples))
    return warm_up, max(1, (len(samples) - warm_up) // 10)


def _measures(samples: Sequence[Sample]) -> Mapping[str, float]:
    commits = max(1, sum(one.commits for one in samples))
    seconds = sum(one.seconds for one in samples)
    sizes = {name: _median([getattr(one, name) for one in samples]) for name in _SIZES}
    return {
        **sizes,
        "files_kept": sizes["files"] * seconds / commits,
        "commit_ms": 1000 * seconds / commits,
        "commit_cpu_ms": 1000 * sum(one.cpu_seconds for one in samples) / commits,
        "commit_probes": 1000 * sum(one.cpu_seconds / one.probe_ms for one in samples if one.probe_ms) / commits,
    }


def _median(values: Sequence[float]) -> float:
    return statistics.median([value for value in values if value] or [0.0])
