"""The state that a replicator wrote last, and what is known beside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from replicator_runtime.engine.control.pause import stored_pause
from replicator_runtime.engine.letters.letter_file import row_counts
from replicator_runtime.observed.comparisons import Comparisons
from replicator_runtime.observed.liveness import Liveness, liveness, waits_for_first_run
from replicator_runtime.observed.objectives import slo_json, stored_figures
from replicator_sdk.errors import NeedsUserError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from replicator_runtime.engine.control.pause import Pause
    from replicator_runtime.freshness.figures import Figures
    from replicator_sdk import TableId
    from replicator_state import ReplicatorDirectory

NO_STATUS: Final = "RPL-1201"
_NEWEST_REQUESTS: Final = 20


@dataclass(frozen=True, slots=True)
class ObservedStatus:
    """What is stored, and what it says of the process that wrote it.

    Attributes:
        data: All of it, in JSON values, as `replicator status --json` prints it.
        status: What a run wrote; None where the newest generation was begun by `reset` and has not run yet.
        lives: Of its process.
        paused: The pause that goes on.
        comparisons: What was compared; None without a status.
        figures: Of the freshness objectives.
        aside: How many rows of which tables are put aside.
    """

    data: dict[str, Any]
    status: Mapping[str, Any] | None = None
    lives: Liveness = field(default_factory=Liveness)
    paused: Pause | None = None
    comparisons: Comparisons | None = None
    figures: tuple[Figures, ...] = ()
    aside: list[tuple[TableId, int]] = field(default_factory=list)


def observed(directory: ReplicatorDirectory) -> ObservedStatus:
    """Read it.

    Raises:
        NeedsUserError: RPL-1201 when there is none yet.
        ReplicatorError: When the state cannot be read.
    """
    found = directory.states().read_status()
    if found is None and waits_for_first_run(directory):
        named = {"name": directory.name, "namespace": directory.namespace, "generation": directory.generation}
        return ObservedStatus(
            {**named, "phase": "reset", "tables": [], "requestsWaiting": directory.requests().waiting()}
        )
    if found is None:
        raise NeedsUserError(f"{directory.place} holds no status yet", code=NO_STATUS, hint="wait until it has started")
    lives = liveness(directory, found)
    waiting, since = directory.requests().waiting(), _done_since(directory, found)
    scoped = directory.states().scoped("runtime")
    paused, comparisons, figures = stored_pause(scoped), Comparisons.of(scoped), stored_figures(scoped)
    aside = sorted((table, rows) for table, rows in row_counts(directory.dead_letters()).items() if rows)
    data = {
        **found,
        "processEnded": lives.process_ended,
        "requestsWaiting": waiting,
        "doneSince": since,
        "paused": pause_json(paused),
        "rowsPutAside": [{**table.to_json(), "rows": rows} for table, rows in aside],
        **comparisons.to_json(),
        "slo": slo_json(figures),
    }
    return ObservedStatus(data, found, lives, paused, comparisons, figures, aside)


def pause_json(paused: Pause | None) -> dict[str, Any] | None:
    """Who paused the whole replicator, and since when; None when no one has."""
    return None if paused is None else {"by": paused.by, "since": paused.since}


def _done_since(directory: ReplicatorDirectory, found: Mapping[str, Any]) -> list[str]:
    """What operators had done after the status was written, the oldest first: without a run no one writes it again."""
    written = datetime.fromisoformat(found["updated"])
    outcomes = (entry.outcome for entry in directory.requests().history(_NEWEST_REQUESTS))
    done = [one for one in outcomes if one is not None and one.state.value == "done" and one.at > written]
    return [line for one in reversed(done) for line in one.lines]
