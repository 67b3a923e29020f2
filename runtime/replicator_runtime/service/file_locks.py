"""Locks that the kernel gives back when the process that has one ends, however it ends (flock)."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def take_lock(path: Path) -> int | None:
    """The lock of a file, which is created for this user alone; None while another process has it.

    Returns:
        A descriptor: closing it, in each process that has it, gives the lock back.

    Raises:
        OSError: When the file cannot be opened, or locked.
    """
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    except BaseException:
        os.close(file)
        raise
    return file


def is_locked(path: Path) -> bool:
    """Whether a process has the lock of a file; no one has that of a file that does not exist.

    Raises:
        OSError: When that cannot be seen now. Taken for an end it would let a second process begin beside a living one.
    """
    try:
        file = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False
