"""What is to be compared how often: stored, so that it outlives runs, and changed by the command `verify.every`."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from replicator_runtime.engine.control.table_commands import Work, named, replicates_by_snapshots
from replicator_runtime.engine.control.table_names import find_table
from replicator_runtime.engine.run_state.plugin_contexts import TargetContext
from replicator_runtime.engine.verification.reading import no_reader, no_rows
from replicator_runtime.stored_forms import SCHEDULE, head, parsed
from replicator_sdk import TableId
from replicator_sdk.errors import NeedsUserError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
    from replicator_runtime.engine.run_state.run import Run
    from replicator_state import Request, StateStore

VERIFY_EVERY: Final = "verify.every"
SHORTEST_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Schedule:
    """What a run compares.

    Attributes:
        every_seconds: How long after a comparison of a table the next one begins.
        rows_per_second: How many rows of the source are read a second, on average; None for as many as one task reads.
        tables: Which tables; all that the pipeline selects, later ones as well, when empty.
        by: Who asked, as `user@host`.
        since: When, in seconds since 1970; each table is compared once soon after.
    """

    every_seconds: float
    rows_per_second: float | None
    tables: tuple[TableId, ...]
    by: str
    since: float


def stored_schedule(store: StateStore) -> Schedule | None:
    """The schedule of a replicator; None when it has none.

    Args:
        store: The runtime's own state.
    """
    content = store.get(SCHEDULE)
    found = parsed(SCHEDULE, content) if content else {}
    if not found.get("everySeconds"):
        return None
    tables = tuple(map(TableId.from_json, found["tables"]))
    return Schedule(found["everySeconds"], found["rowsPerSecond"], tables, found["by"], found["since"])


def keep_former_schedule(run: Run) -> None:
    """Let the schedule of the generation before hold in this one, which begins with none; durable when this returns.

    Nothing happens where this generation was given one, or an operator has ended it.

    Raises:
        FencedError: When a newer run took over.
        ReplicatorError: As the state's store fails.
    """
    if run.store.get(SCHEDULE) is not None:
        return
    for former in run.former()[0]:
        content = former.states().scoped("runtime").get(SCHEDULE)
        if content is not None:
            run.store.put(SCHEDULE, content)
            return


def rename_scheduled(store: StateStore, schedule: Schedule, names: Mapping[TableId, TableId]) -> bool:
    """Have the schedule name tables as they are called now; durable when this returns. One that was given since stays as it is.

    Args:
        store: The runtime's own state.
        schedule: As it was read.
        names: By the former name.

    Returns:
        Whether it names one of them.
    """
    renamed = tuple(dict.fromkeys(names.get(table, table) for table in schedule.tables))
    if renamed == schedule.tables:
        return False
    if stored_schedule(store) == schedule:
        _put(store, replace(schedule, tables=renamed))
    return True


def verify_every(lifecycle: TableLifecycle, request: Request) -> Work:
    """`verify.every`: stores how often tables are compared beside runs; an interval of 0 ends it.

    Raises:
        NeedsUserError: RPL-1220 for an unknown table; RPL-1361 or RPL-1362 where source or target cannot be read; RPL-1225 for another
            request.
    """
    every, rate = _number(request.arguments, "everySeconds"), _number(request.arguments, "rowsPerSecond")
    store = lifecycle.run.store
    if not every:
        found = stored_schedule(store)
        lines = ("tables are not compared beside runs any more",) if found else ("no table was compared beside runs",)
        return Work(lines, lambda: _put(store, None))
    selects = lifecycle.run.pipeline.selection.matches
    known = [table for table in lifecycle.records if selects(table) is not None]
    names = named(request.arguments) if request.arguments.get("tables") else []
    _refuse_unreadable(lifecycle.run)
    tables = tuple(dict.fromkeys(find_table(name, known) for name in names))
    made = Schedule(max(every, SHORTEST_SECONDS), rate, tables, request.by, time.time())
    what = ", ".join(map(str, tables)) or "each table"
    line = f"{what} is compared every {made.every_seconds / 3600:g} h beside `replicator run`, the first time soon; `replicator status` shows what was found"
    return Work((line,), lambda: _put(store, made))


def _refuse_unreadable(run: Run) -> None:
    if not replicates_by_snapshots(run):
        raise no_rows()
    if run.pipeline.target.create_table_reader(TargetContext(run)) is None:
        raise no_reader(run.pipeline.target.name)


def _put(store: StateStore, made: Schedule | None) -> None:
    """Store it, or that there is none: an older file of it would count if it were deleted."""
    content: dict[str, Any] = {**head(SCHEDULE)}
    if made is not None:
        content |= {
            "everySeconds": made.every_seconds,
            "rowsPerSecond": made.rows_per_second,
            "tables": [table.to_json() for table in made.tables],
            "by": made.by,
            "since": made.since,
        }
    store.put(SCHEDULE, json.dumps(content).encode())


def _number(arguments: Mapping[str, Any], name: str) -> float | None:
    value = arguments.get(name)
    if value is None or (isinstance(value, (int, float)) and value >= 0):
        return value or None
    raise NeedsUserError(f"the request has no {name}", code="RPL-1225", hint="give the command again")
