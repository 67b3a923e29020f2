"""How many cases `make test` tries of those that cost a Spark, a server or a whole run each: some of them. `make test-all` tries every one.

Every point of the engine and the state is always tried with the target `file` (`crash/sqlite/test_kill_points.py`). Why: docs/decisions/0057-some-cases-and-all-cases.md
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from typing import Final, TypeVar

import pytest

Case = TypeVar("Case")

ALL_CASES: Final = bool(os.environ.get("ALL_CASES"))
_LEFT_OUT: Final = (
    "verify/test_in_bigquery.py",
    "test_short_runs.py",
    "test_killed_java.py::test_killed_once_and_then_twice",
    "kafka/test_to_delta.py::test_postgres_through_transactions",
    "kafka/test_to_bigquery.py::test_three_runs_after_a_kill",
    "test_log_position.py::test_emitted_changes_are_stored",
    "next_steps/test_comparisons.py::test_tables_that_differ",
    "commands/test_heal.py",
    "lost_log/test_failing_lanes.py",
    "test_delta_kill_points.py::test_three_runs_after_a_kill_at_every_point_of_maintenance",
    "test_keyless_partitions.py::test_rows_in_bigquery_are_those",
    "test_kept_state.py",
)
"""Tests of minutes that only `make test-all` has; parts of their node ids."""
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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without `ALL_CASES`, leave out tests of minutes, and most cases of tests that start servers or whole runs."""
    if ALL_CASES:
        return
    cases: dict[str, list[str]] = {}
    left_out = {item.nodeid for item in items if any(part in item.nodeid for part in _LEFT_OUT)}
    for item in items:
        if item.nodeid.startswith(tuple(_FEW)) and not any(part in item.nodeid for part in _WHOLE):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item.nodeid)
    for function, nodes in cases.items():
        most = next(most for folder, most in _FEW.items() if function.startswith(folder))
        left_out |= {*nodes} - {*some(nodes, most, name=function)}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left_out])
    items[:] = [item for item in items if item.nodeid not in left_out]
