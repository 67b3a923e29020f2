"""How many cases `make test` tries of those that cost a Spark or a server each: some of them. `make test-all` tries every one.

Every point of the engine and the state is always tried with the target `file` (`crash/sqlite/test_kill_points.py`). Why: docs/decisions/0057-some-cases-and-all-cases.md
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from typing import Final, TypeVar

Case = TypeVar("Case")

ALL_CASES: Final = bool(os.environ.get("ALL_CASES"))


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
