"""Commands that concern tables: each checks all of its tables before it changes any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from replicator_runtime.engine.control.table_names import find_table
from replicator_runtime.engine.run_state.plugin_contexts import takes_snapshots
from replicator_runtime.engine.tables.table_state import TableState
from replicator_sdk import EventReaderDefinition
from replicator_sdk.errors import NeedsUserError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_state import Request


def retry(lifecycle: TableLifecycle, request: Request) -> list[str]:
    """`table.retry`: failing tables are tried again at once, those that gave the log up as well; they are copied again.

    Returns:
        What follows, a line for each table.

    Raises:
        NeedsUserError: RPL-1220 for an unknown table, RPL-1221 for one that does not fail.
    """
    records = _records(lifecycle, request.arguments)
    for record in records:
        if record.state is not TableState.FAILING:
            raise NeedsUserError(
                f"{record.table} is {record.state}: there is nothing to try again",
                code="RPL-1221",
                hint="`replicator status` shows the state of each table",
                table=str(record.table),
            )
    for record in records:
        lifecycle.retry_now(record)
    return [
        f"{record.table} is {'copied again' if record.needs_snapshot and lifecycle.takes_snapshots else 'tried again'}"
        for record in records
    ]


def resync(lifecycle: TableLifecycle, request: Request) -> list[str]:
    """`table.resync`: tables are described and copied again; the error of a failing one is forgotten.

    Done once for each table and request, also when the request is carried out again after a crash.

    Returns:
        What follows, a line for each table.

    Raises:
        NeedsUserError: RPL-1220 for an unknown table; RPL-1222 when the source takes no snapshots; RPL-1223 when the copy is
            to be made beside the table.
    """
    records = _records(lifecycle, request.arguments)
    run = lifecycle.run
    if not takes_snapshots(run, EventReaderDefinition({}, run.pipeline.out_of_range)):
        raise NeedsUserError(
            "the source takes no snapshots: no table can be copied again by itself",
            code="RPL-1222",
            hint="replicate the table by a pipeline of its own, with another `name` and place at the target, which reads the log from its start",
        )
    if not request.arguments.get("inPlace"):
        raise NeedsUserError(
            "the target cannot make the copy beside the table yet",
            code="RPL-1223",
            hint="give --in-place: until the copy has ended, readers of the target see a part of the table",
        )
    new = [record for record in records if record.resync != request.request_id]
    for record in new:
        lifecycle.resync(record, request.request_id)
    if new:
        lifecycle.save()
    return [f"{record.table} is copied again" for record in records]


def _records(lifecycle: TableLifecycle, arguments: Mapping[str, Any]) -> list[TableRecord]:
    names = arguments.get("tables")
    if not isinstance(names, list) or not names:
        raise NeedsUserError("the request names no tables", code="RPL-1225", hint="give the command again")
    selected = lifecycle.run.pipeline.selection.matches
    known = {table: record for table, record in lifecycle.records.items() if selected(table) is not None}
    return [known[table] for table in dict.fromkeys(find_table(str(name), known) for name in names)]
