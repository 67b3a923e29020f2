"""The process that holds a lease, and whether it has certainly ended."""

from __future__ import annotations

import os
import socket
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class LeaseHolder:
    """One run's process.

    Attributes:
        run_id: The run.
        host: Host name, for people.
        boot: The kernel's boot identity; empty where unknown.
        process_space: The process namespace, since containers on one kernel number their processes apart.
        pid: Process number in that namespace.
        started: When the process started, in ticks since boot, so that a reused number is recognised without any
            clock.
    """

    run_id: str
    host: str
    boot: str
    process_space: str
    pid: int
    started: int

    @classmethod
    def current(cls, run_id: str) -> Self:
        """This process as the holder for `run_id`."""
        pid = os.getpid()
        started, _ = _process(pid)
        return cls(run_id, socket.gethostname(), _boot(), _process_space(), pid, started)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """The inverse of `to_json`."""
        return cls(**{name: kind(value[name]) for name, kind in _FIELDS.items()})

    def to_json(self) -> dict[str, Any]:
        """The form in lease files."""
        return asdict(self)

    def is_gone(self) -> bool:
        """Whether the process is dead for certain; False also when it cannot be known from here."""
        if not self.boot or (self.boot, self.process_space) != (_boot(), _process_space()):
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass  # it exists and belongs to another user
        started, state = _process(self.pid)
        # Z and X: dead, only not yet collected by its parent.
        return state in {"Z", "X"} or (started > 0 and self.started > 0 and started != self.started)

    def __str__(self) -> str:
        return f"run {self.run_id} (process {self.pid} on {self.host})"


_FIELDS = {"run_id": str, "host": str, "boot": str, "process_space": str, "pid": int, "started": int}


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _process_space() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _process(pid: int) -> tuple[int, str]:
    """Start time in ticks since boot and state letter of a process; (0, "") where that cannot be read."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0, ""
    fields = text.rpartition(")")[2].split()  # the name before it may hold anything
    return int(fields[19]), fields[0]
