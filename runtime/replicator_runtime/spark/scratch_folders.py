"""The temporary folders of one Java virtual machine, which are deleted with it, however it ends.

Spark deletes its temporary files (copies of jars, shuffle and broadcast blocks, native libraries) at its own end. A virtual
machine that is killed leaves them, so this process deletes them then; if this process is killed too, the next start does.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

_PREFIX = "replicator-spark-"
_LOCK = "in-use"


class Scratch:
    """A new folder below each base folder; not thread-safe.

    Args:
        bases: Where; this machine's temporary folder when left out.

    Attributes:
        paths: The new folders, in the order of `bases`.
    """

    def __init__(self, bases: tuple[str, ...] = ()) -> None:
        self._locks: list[int] = []
        self.paths: list[str] = []
        for base in bases or (tempfile.gettempdir(),):
            Path(base).mkdir(parents=True, exist_ok=True)
            _sweep(Path(base))
            path = tempfile.mkdtemp(prefix=_PREFIX, dir=base)
            self._locks.append(_locked(Path(path) / _LOCK, create=True))
            self.paths.append(path)

    def remove(self) -> None:
        """Delete the folders; called when the virtual machine has ended. May be called twice."""
        for path in self.paths:
            shutil.rmtree(path, ignore_errors=True)
        for lock in self._locks:
            os.close(lock)
        self.paths, self._locks = [], []


def _sweep(base: Path) -> None:
    """Delete the folders of processes that are gone; a living one holds its lock, also in another container."""
    for folder in base.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            lock = _locked(folder / _LOCK, create=False)
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def _locked(path: Path, *, create: bool) -> int:
    """A descriptor that holds the lock on `path` until it is closed or the process ends.

    Raises:
        OSError: When there is no such file, it is not ours, or a living process holds it.
    """
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT if create else 0)
    descriptor = os.open(path, flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
