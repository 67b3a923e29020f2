"""How many cases `make test` tries of those that cost a Spark, a server or a whole run each: some of them. `make test-all` tries every one.

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
"""Tests that only `make test-all` has: the worker's seconds of the slowest case, as measured once, and the test."""
_FEW: Final = {"tests/crash/": 1, "tests/end_to_end/": 1, "tests/plugins/sources/": 4}
"""Folder → how many cases of each parametrized test are tried."""
_WHOLE: Final = ("test_conformance.py", "crash/sqlite/test_kill_points.py")
"""Whose cases are all tried: they are cheap, and what the others rely on."""


def some(cases: Sequence[Case], most: int, *, name: str) -> Sequence[Case]:
    """All of `cases` in `make test-all`, otherwise at most `most`, as far apart as may be and in their order.

    Args:
        cases: What may be tried: points of a kill, sources, servers.
        most: How many are tried in `make test`.
        name: Of the test: tests that share cases begin at different ones. The same ones at each run.
    """
    if ALL_CASES or len(cases) <= most:
        return cases
    first = zlib.crc32(name.encode()) % len(cases)
    chosen = {(first + number * len(cases) // most) % len(cases) for number in range(most)}
    return [case for number, case in enumerate(cases) if number in chosen]


def costly_tests() -> frozenset[str]:
    """The tests that `make test` leaves out whole, without their parameters."""
    return frozenset(line.partition(" ")[2] for line in _COSTLY.read_text().splitlines())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without `ALL_CASES`, leave out costly tests, and most cases of tests that start servers or whole runs."""
    if ALL_CASES:
        return
    cases: dict[str, list[str]] = {}
    costly = costly_tests()
    left_out = {item.nodeid for item in items if item.nodeid.partition("[")[0] in costly}
    for item in items:
        if item.nodeid.startswith(tuple(_FEW)) and not any(part in item.nodeid for part in _WHOLE):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item.nodeid)
    for function, nodes in cases.items():
        most = next(most for folder, most in _FEW.items() if function.startswith(folder))
        left_out |= {*nodes} - {*some(nodes, most, name=function)}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left_out])
    items[:] = [item for item in items if item.nodeid not in left_out]
