"""Says whether a process still works on a replicator, from its last status and its lease."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from replicator_runtime.engine.views.phases import ENDED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from replicator_state import ReplicatorDirectory

SILENT_AFTER_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Liveness:
    """What is known of the process of a replicator.

    Attributes:
        silent_seconds: Age of the last status of a replicator that should be running; 0 when it is recent.
        process_ended: Whether its process is known to have ended without a last status, as after `kill -9`.
    """

    silent_seconds: float = 0.0
    process_ended: bool = False

    def __str__(self) -> str:
        if self.process_ended:
            return "its process has ended without a last status (was it killed?)"
        return f"no process has written this for {self.silent_seconds:,.0f} s" if self.silent_seconds else ""


def liveness(directory: ReplicatorDirectory, status: Mapping[str, Any]) -> Liveness:
    """Of the replicator whose last status is given. A process on this host is looked for, one elsewhere cannot be."""
    if status.get("phase") in ENDED:
        return Liveness()
    lease = directory.newest_lease()
    ended = lease is not None and (lease.released or lease.holder.is_gone())
    return Liveness(silent_seconds(status), ended)


def shown_liveness(status: Mapping[str, Any]) -> Liveness:
    """Of the replicator of which `replicator status --json` shows this."""
    return Liveness(silent_seconds(status), bool(status.get("processEnded")))


def silent_seconds(status: Mapping[str, Any]) -> float:
    """Age of the last status of a replicator that should be running; 0 when it is recent."""
    if status.get("phase") in ENDED or "updated" not in status:
        return 0.0
    age = (datetime.now(UTC) - datetime.fromisoformat(str(status["updated"]))).total_seconds()
    return age if age > SILENT_AFTER_SECONDS else 0.0


def waits_for_first_run(directory: ReplicatorDirectory) -> bool:
    """Whether the newest generation was begun by `reset` and has not run yet; it has no status then."""
    if directory.generation == 1:
        return False
    lease = directory.newest_lease()
    return lease is None or lease.released or lease.holder.is_gone()
