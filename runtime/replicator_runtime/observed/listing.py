"""A replicator in a few values, for lists of them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from replicator_runtime.observed.liveness import Liveness, liveness, waits_for_first_run
from replicator_sdk.errors import ReplicatorError

if TYPE_CHECKING:
    from replicator_state import ReplicatorDirectory


def entry(directory: ReplicatorDirectory) -> dict[str, Any]:
    """One replicator, in JSON values; of one whose state cannot be read, why."""
    known = {"namespace": directory.namespace, "name": directory.name}
    try:
        status = directory.states().read_status()
        waiting = len(directory.requests().waiting())
        lives = liveness(directory, status) if status else Liveness()
        reset_only = status is None and waits_for_first_run(directory)
    except ReplicatorError as error:
        return {**known, **_UNKNOWN, "error": f"{error.code}: {error.message}"}
    if reset_only:
        return {
            **known,
            **_UNKNOWN,
            "generation": directory.generation,
            "phase": "reset",
            "requestsWaiting": waiting,
        }
    if status is None:
        return {**known, **_UNKNOWN, "requestsWaiting": waiting}
    fault = status.get("sourceError")
    tables = Counter(str(table.get("state")) for table in status.get("tables", ()))
    return {
        **known,
        "generation": status.get("generation"),
        "phase": status.get("phase"),
        "tables": dict(sorted(tables.items())),
        "lagSeconds": status.get("lagSeconds"),
        "updated": status.get("updated"),
        "silentSeconds": round(lives.silent_seconds) or None,
        "processEnded": lives.process_ended,
        "requestsWaiting": waiting,
        "error": f"{fault.get('code')}: {fault.get('message')}" if fault else None,
    }


_UNKNOWN: dict[str, Any] = {
    "generation": None,
    "phase": None,
    "tables": {},
    "lagSeconds": None,
    "updated": None,
    "silentSeconds": None,
    "processEnded": False,
    "requestsWaiting": None,
    "error": None,
}
