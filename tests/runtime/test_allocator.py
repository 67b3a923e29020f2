"""The limit on arenas is one the C library keeps to."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

_GROW = """
import ctypes, threading
from replicator_runtime.allocator import limit_arenas
if {limited}:
    assert limit_arenas(2)
malloc = ctypes.CDLL(None).malloc
barrier = threading.Barrier(8)
def use():
    for _ in range(200):
        malloc(1000)
    barrier.wait()
threads = [threading.Thread(target=use) for _ in range(8)]
for t in threads: t.start()
for t in threads: t.join()
ctypes.CDLL(None).malloc_stats()
"""


def arenas(*, limited: bool) -> int:
    done = subprocess.run(
        [sys.executable, "-c", _GROW.format(limited=limited)], capture_output=True, text=True, check=True
    )
    return done.stderr.count("Arena ")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no such arenas")
def test_many_threads_share_two_arenas() -> None:
    assert arenas(limited=True) <= 2 < arenas(limited=False)
