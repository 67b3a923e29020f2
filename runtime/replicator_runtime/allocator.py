"""Lets the C library's allocator return freed memory to the system."""

from __future__ import annotations

import ctypes
import sys

_M_ARENA_MAX = -8
"""glibc's `mallopt`: how many arenas there may be."""


def limit_arenas(count: int = 2) -> bool:
    """Let the process's threads share `count` arenas; returns whether the C library supports it (glibc only).

    By default glibc gives every thread an arena of its own, and each keeps what its threads have freed: a driver with twenty
    threads held 30 MB more over a large transaction. Call it before threads are started; threads that have an arena
    keep it.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_M_ARENA_MAX, count))
