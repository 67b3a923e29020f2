"""How many cases `make test` tries of each test: of a costly one some, or none. `make test-all` tries every one.

Every point of the engine and the state is always tried with the target `file` (`crash/sqlite/test_kill_points.py`). Why: docs/decisions/0057-some-cases-and-all-cases.md
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeVar

import pytest

Case = TypeVar("Case")

ALL_CASES: Final = bool(os.environ.get("ALL_CASES"))
_COSTLY: Final = Path(__file__).with_name("costly_tests.txt")
"""A line for each test whose cases are not all tried: seconds of a worker for one case, as measured once, how many cases are tried, the test."""


def some(cases: Sequence[Case], most: int, *, name: str) -> Sequence[Case]:
    """All of `cases` in `make test-all`, otherwise at most `most`, as far apart as may be and in their order.

    Args:
        cases: What may be tried: points of a kill, sources, servers.
        most: How many are tried in `make test`; 0 for none.
        name: Of the test: tests that share cases begin at different ones. The same ones at each run.
    """
    if ALL_CASES or len(cases) <= most:
        return cases
    first = zlib.crc32(name.encode()) % len(cases)
    chosen = {(first + number * len(cases) // most) % len(cases) for number in range(most)}
    return [case for number, case in enumerate(cases) if number in chosen]


def costly_tests() -> dict[str, int]:
    """Each test of which `make test` does not have every case, without parameters → how many it has; 0 leaves it out whole."""
    lines = (line.split(" ", 2) for line in _COSTLY.read_text().splitlines())
    return {test: int(cases) for _, cases, test in lines}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without `ALL_CASES`, leave out what is costly."""
    if ALL_CASES:
        return
    costly = costly_tests()
    cases: dict[str, list[str]] = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item.nodeid)
    tried = {node for test, nodes in cases.items() for node in some(nodes, costly.get(test, len(nodes)), name=test)}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in tried])
    items[:] = [item for item in items if item.nodeid in tried]
