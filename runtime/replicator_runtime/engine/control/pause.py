"""Pauses a whole replicator: its runs read and write nothing until it is resumed; stored, so that it outlives runs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from replicator_runtime.engine.control.table_commands import Work

if TYPE_CHECKING:
    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
    from replicator_state import Request, StateStore

_KEY = "engine-pause"
_HELD = "meanwhile the source has to keep its log (a PostgreSQL slot holds WAL; binary logs and topics expire)"


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause that goes on.

    Attributes:
        by: Who asked, as `user@host`.
        since: When, as ISO 8601 in UTC.
    """

    by: str
    since: str

    def __str__(self) -> str:
        return f"paused by {self.by} since {self.since}"


def stored_pause(store: StateStore) -> Pause | None:
    """The pause of a replicator; None when it has none.

    Args:
        store: The runtime's own state.
    """
    content = store.get(_KEY)
    found = json.loads(content) if content else None
    return None if found is None else Pause(str(found["by"]), str(found["since"]))


def pause(lifecycle: TableLifecycle, request: Request) -> Work:
    """`pause`: a run that goes on applies and saves what it has gathered, then waits; done twice it is the first pause."""
    store, found = lifecycle.run.store, stored_pause(lifecycle.run.store)
    if found is not None:
        return Work((f"it is {found} already; {_HELD}",), lambda: None)
    made = Pause(request.by, datetime.now(UTC).isoformat(timespec="seconds"))

    def carry_out() -> None:
        """Store it."""
        store.put(_KEY, json.dumps({"by": made.by, "since": made.since}).encode())

    return Work((f"it is paused until `replicator resume`; {_HELD}",), carry_out)


def resume(lifecycle: TableLifecycle, request: Request) -> Work:  # noqa: ARG001 - as all commands
    """`resume`: the next attempt goes on from the saved offset."""
    store, found = lifecycle.run.store, stored_pause(lifecycle.run.store)
    if found is None:
        return Work(("it is not paused",), lambda: None)

    def carry_out() -> None:
        """Store that there is none: an older file of it would count if it were deleted."""
        store.put(_KEY, b"null")

    return Work((f"it goes on; it was {found}",), carry_out)
