"""Waits in tests: for what is to become true, never for a time to pass."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(holds: Callable[[], object], what: str = "it does not come true", *, seconds: float = 60.0) -> None:
    """Return once `holds()` is true.

    Args:
        holds: Is asked again and again.
        what: What is waited for.
        seconds: For how long at most.

    Raises:
        AssertionError: When it is not true by then.
    """
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(min(0.1, seconds / 6000))
