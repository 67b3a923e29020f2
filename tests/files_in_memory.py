"""Temporary files of tests are in memory where there is room: a third of the time of the engine's tests was `fsync` (docs/decisions/0057-some-cases-and-all-cases.md)."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

import psutil

_MEMORY: Final = Path("/dev/shm")
_ROOM: Final = 6 * 2**30
"""Bytes that have to be free there: a run of the suite leaves some 2 GiB at most."""
_MEMORY_LEFT: Final = 12 * 2**30
"""Bytes that have to be left to the servers and the Java of the tests."""


def keep_files_in_memory() -> None:
    """Set `TMPDIR` for this process and those it starts, unless it is set or memory is short."""
    if os.environ.get("TMPDIR") or not _MEMORY.is_dir():
        return
    room = os.statvfs(_MEMORY)
    if room.f_bavail * room.f_frsize < _ROOM or psutil.virtual_memory().available < _MEMORY_LEFT:
        return
    folder = _MEMORY / f"replicator-tests-{os.geteuid()}"
    folder.mkdir(mode=0o755, exist_ok=True)
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None  # so that it is asked for again
