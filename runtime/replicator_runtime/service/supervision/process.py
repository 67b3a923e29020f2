"""A process by number, start and boot, so that another one that has got its number is never taken for it."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from replicator_runtime.service.supervision import keeper


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process of this or another host.

    Attributes:
        pid: Its number in its process namespace.
        started: When it started, in ticks since boot.
        boot: The boot of the machine's kernel.
        space: The process namespace, since containers on one kernel number their processes apart.
    """

    pid: int
    started: int
    boot: str
    space: str

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """The inverse of what the keeper writes."""
        return cls(int(value["pid"]), int(value["started"]), str(value["boot"]), str(value["space"]))

    def open(self) -> int | None:
        """A file descriptor of the process (pidfd), which names it for as long as it is open; None when it has gone.

        The descriptor is opened first and compared then: from there on no other process can take the number's place.
        """
        here = keeper.identity()
        if (self.boot, self.space) != (here["boot"], here["space"]):
            return None
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return None
        if start_of(self.pid) == self.started:
            return descriptor
        os.close(descriptor)
        return None


def start_of(pid: int) -> int | None:
    """When the process with a number started, in ticks since boot; None when there is none."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return None


def send(descriptor: int, number: signal.Signals) -> None:
    """Send a signal to the process of a descriptor, if it has not ended."""
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(descriptor, number)
