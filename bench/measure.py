"""Numbers, kept raw, and their medians."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.process import Cost


@dataclass(frozen=True, slots=True)
class Measured:
    """One number of one round.

    Attributes:
        scenario: What was done.
        side: By whom: `ours` or a peer.
        what: What the number says, with its unit.
        value: The number.
        round: Which round, from 0.
        cost: What its run cost, when there is one.
    """

    scenario: str
    side: str
    what: str
    value: float
    round: int
    cost: Cost | None = None


def marginal(scenario: str, side: str, number: int, small: tuple[int, Cost], large: tuple[int, Cost]) -> list[Measured]:
    """Rates of a large run less a small one (starting up is the same for both), by wall clock and by CPU time."""
    done = large[0] - small[0]
    seconds, cpu = large[1].seconds - small[1].seconds, large[1].cpu - small[1].cpu
    return [
        Measured(scenario, side, "rows/s, marginal", done / seconds if seconds > 0 else float("nan"), number, large[1]),
        Measured(scenario, side, "rows per CPU second, marginal", done / cpu if cpu > 0 else float("nan"), number),
        Measured(scenario, side, "s, large run", large[1].seconds, number),
        Measured(scenario, side, "s, small run", small[1].seconds, number),
        Measured(scenario, side, "CPU s, large run", large[1].cpu, number),
        Measured(scenario, side, "MB, peak of all processes", large[1].peak / 1e6, number),
    ]


class Book:
    """All numbers of one run, appended to a file as they come, so that a broken run loses nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.numbers: list[Measured] = []

    def add(self, numbers: Iterable[Measured]) -> None:
        """Keep and print them."""
        for number in numbers:
            self.numbers.append(number)
            print(f"{number.scenario:28} {number.side:22} {number.what:32} {number.value:14,.3f}", flush=True)
            with self._path.open("a") as file:
                file.write(json.dumps(asdict(number)) + "\n")

    def load(self) -> None:
        """Take what an earlier run left in the file."""
        for line in self._path.read_text().splitlines() if self._path.exists() else ():
            fields = json.loads(line)
            cost = fields.pop("cost")
            self.numbers.append(Measured(**fields, cost=Cost(**cost) if cost else None))

    def values(self, scenario: str, side: str, what: str) -> list[float]:
        """All rounds' values of one number, sorted; those that make no sense (a small run slower than a large) left out."""
        found = [n.value for n in self.numbers if (n.scenario, n.side, n.what) == (scenario, side, what)]
        return sorted(v for v in found if not math.isnan(v))

    def median(self, scenario: str, side: str, what: str) -> float | None:
        """The median over the rounds; None when nothing was measured."""
        values = self.values(scenario, side, what)
        return statistics.median(values) if values else None
