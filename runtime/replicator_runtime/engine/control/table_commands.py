"""Commands that concern tables: each checks all of its tables before it changes any."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from replicator_runtime.config.selection import entry_parts, is_pattern
from replicator_runtime.engine.control.table_names import find_table, parse_name
from replicator_runtime.engine.run_state.plugin_contexts import reads_tables_alone, takes_snapshots
from replicator_runtime.engine.structure.kept_columns import prevents_copy_beside
from replicator_sdk import EventReaderDefinition
from replicator_sdk.errors import NeedsUserError

if TYPE_CHECKING:
    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
    from replicator_runtime.engine.run_state.run import Run
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_sdk import DeltaTarget, TableId
    from replicator_state import Request


@dataclass(frozen=True, slots=True)
class Done:
    """What a command did, where that is known only afterwards.

    Attributes:
        lines: For people, a line for each part of it.
        data: For tools, in JSON values.
    """

    lines: tuple[str, ...]
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Work:
    """A command that was checked.

    Attributes:
        lines: For people, what follows, a line for each table.
        carry_out: Does it; durable when it returns. Done twice it changes nothing more. Returns what it did where `lines` cannot say it. May raise `NotDoneError`.
    """

    lines: tuple[str, ...]
    carry_out: Callable[[], Done | None]


class NotDoneError(Exception):
    """A command was refused while it was carried out; the run goes on.

    Attributes:
        error: What the outcome says.
    """

    def __init__(self, error: NeedsUserError) -> None:
        super().__init__(str(error))
        self.error = error


def retry(lifecycle: TableLifecycle, request: Request) -> Work:
    """`table.retry`: a run tries failing tables again at once, those that gave the log up as well; they are copied again.

    Raises:
        NeedsUserError: RPL-1220 for an unknown table, RPL-1221 for one that does not fail, RPL-1225 without tables.
    """
    missing = _missing(lifecycle, request.arguments)
    names = [name for name in named(request.arguments) if name not in missing]
    records = _records(lifecycle, {"tables": names}) if names else []
    for record in records:
        if not lifecycle.fails(record):
            raise NeedsUserError(
                f"{record.table} is {record.state}: there is nothing to try again",
                code="RPL-1221",
                hint="`replicator status` shows the state of each table",
                table=str(record.table),
            )
    copies = replicates_by_snapshots(lifecycle.run)

    def carry_out() -> None:
        """Nothing of it is stored: a start tries every table."""
        for record in records:
            lifecycle.retry_now(record)

    how = {record.table: "copied" if copies and record.needs_snapshot else "tried" for record in records}
    by = "the next run" if lifecycle.run.alone else "the run that goes on"
    looked_for = [f"{name}, which the source does not have, will be looked for again by {by}" for name in missing]
    return Work((*(f"{table} will be {what} again by {by}" for table, what in how.items()), *looked_for), carry_out)


def resync(lifecycle: TableLifecycle, request: Request) -> Work:
    """`table.resync`: tables are described and copied again; the error of a failing one is forgotten.

    Done once for each table and request, also when the request is carried out again after a crash.

    Raises:
        NeedsUserError: RPL-1220 for an unknown table; RPL-1222 when the source takes no snapshots; RPL-1223 when the copy is
            to be made beside the table and the target cannot; RPL-1237 when that cannot be throttled; RPL-1305 for a table with kept columns;
            RPL-1225 without tables; RPL-1293 for a paused one; RPL-1294 for one that waits for a decision.
    """
    records = _records(lifecycle, request.arguments)
    if not replicates_by_snapshots(lifecycle.run):
        raise NeedsUserError(
            "the source takes no snapshots: no table can be copied again by itself",
            code="RPL-1222",
            hint="replicate the table by a pipeline of its own, with another `name` and place at the target, which reads the log from its start",
        )
    beside = not request.arguments.get("inPlace")
    if beside and not lifecycle.run.pipeline.target.copies_beside:
        raise NeedsUserError(
            f"the target {lifecycle.run.pipeline.target.name} cannot make the copy beside the table",
            code="RPL-1223",
            hint="give --in-place: until the copy has ended, readers of the target see a part of the table",
        )

    if beside and lifecycle.run.config.snapshot.max_rows_per_second is not None:
        raise NeedsUserError(
            "copies are throttled by `snapshot.maxRowsPerSecond`, and a copy beside the table is read all at once",
            code="RPL-1237",
            hint="give --in-place: until the copy has ended, readers of the target see a part of the table",
        )
    for record in records:
        refuse_held(record)
        if beside:
            _refuse_kept(record, lifecycle.run.pipeline.target)

    def carry_out() -> None:
        """Note it; the next attempt copies."""
        new = [record for record in records if record.resync != request.request_id]
        for record in new:
            lifecycle.want_copy(record, request.request_id, beside=beside)
        if new:
            lifecycle.save()

    by = "the next run that finds it" if lifecycle.run.alone else "the run that goes on, once it finds it"
    return Work(tuple(f"{record.table} will be copied again by {by} at the source" for record in records), carry_out)


def pause(lifecycle: TableLifecycle, request: Request) -> Work:
    """`table.pause`: changes of tables go to lanes and not to the target; what failed is forgotten.

    Raises:
        NeedsUserError: RPL-1220 for an unknown table, RPL-1225 without tables, RPL-1290 for one that is paused, RPL-1292 when
            the source takes no snapshots, and does not read its log for one table alone.
    """
    records = _records(lifecycle, request.arguments)
    if not (replicates_by_snapshots(lifecycle.run) or reads_tables_alone(lifecycle.run, _no_tables(lifecycle.run))):
        raise NeedsUserError(
            "one reader reads this source's log for all tables, and the source takes no snapshots: a table whose changes are not kept any"
            " more could not be made whole again",
            code="RPL-1292",
            hint="stop the run instead: the source's log keeps the changes of all tables until it is started again",
        )
    for record in records:
        waits = record.pause is not None and not (record.pause.resuming or record.pause.failed)
        if waits and record.pause is not None and record.pause.request != request.request_id:
            raise NeedsUserError(
                f"{record.table} is paused already",
                code="RPL-1290",
                hint="`replicator status NAME` shows since when; `replicator table resume NAME TABLE` ends it",
                table=str(record.table),
            )

    def carry_out() -> None:
        """Note it; the next attempt keeps the changes."""
        new = [r for r in records if r.pause is None or r.pause.request != request.request_id]
        for record in new:
            lifecycle.pause(record, request.request_id)
        if new:
            lifecycle.save()

    later = {r.table: ", and is copied again when it is resumed" if r.awaits_copy else "" for r in records}
    return Work(tuple(f"{table} is paused{then}" for table, then in later.items()), carry_out)


def resume(lifecycle: TableLifecycle, request: Request) -> Work:
    """`table.resume`: the target gets what came while tables were paused, then they go on.

    Raises:
        NeedsUserError: RPL-1220 for an unknown table, RPL-1225 without tables, RPL-1291 for one that is not paused, RPL-1294 for one
            that waits for a decision, RPL-1289 for one that fails in its lane.
    """
    records = _records(lifecycle, request.arguments)
    for record in records:
        _refuse_waiting(record)
        if record.fails_in_lane:
            raise NeedsUserError(
                f"{record.table} fails, and no one has paused it; its changes are in its lane",
                code="RPL-1289",
                hint="`replicator table retry NAME TABLE` gives the target its lane at once; else the run does it from time to time",
                table=str(record.table),
            )
        if record.pause is None and record.resumed != request.request_id:
            raise NeedsUserError(
                f"{record.table} is {record.state}, and not paused",
                code="RPL-1291",
                hint="`replicator status` shows the state of each table",
                table=str(record.table),
            )
    new = [r for r in records if r.resumed != request.request_id and r.pause is not None]

    def carry_out() -> None:
        """Note it; the next attempt gives the target what came meanwhile."""
        for record in new:
            lifecycle.resume(record, request.request_id)
        if new:
            lifecycle.save()

    how = {r.table: "copied again" if r.awaits_copy else "resumed" for r in records}
    by = "the next run" if lifecycle.run.alone else "the run that goes on"
    return Work(tuple(f"{table} will be {what} by {by}" for table, what in how.items()), carry_out)


def _refuse_kept(record: TableRecord, target: DeltaTarget) -> None:
    if prevents_copy_beside(record, target):
        kept = ", ".join(column.name for column in record.kept_columns)
        raise NeedsUserError(
            f"{record.table} has kept columns that the source has dropped ({kept}), and the target {target.name} cannot make a copy without"
            " them beside the table",
            code="RPL-1305",
            hint="give --in-place: until the copy has ended, readers of the target see a part of the table",
            table=str(record.table),
        )


def refuse_held(record: TableRecord) -> None:
    """Refuse a table that waits for an operator, and cannot be copied again before.

    Raises:
        NeedsUserError: RPL-1293 for a paused one; RPL-1294 for one that waits for a decision.
    """
    _refuse_waiting(record)
    if record.pause is not None and not (record.pause.resuming or record.pause.failed):
        raise NeedsUserError(
            f"{record.table} is paused",
            code="RPL-1293",
            hint="resume it first: `replicator table resume NAME TABLE`; it can be copied again then",
            table=str(record.table),
        )


def _refuse_waiting(record: TableRecord) -> None:
    if record.undecided:
        raise NeedsUserError(
            f"{record.table} waits for a decision: {record.asks}",
            code="RPL-1294",
            hint="`replicator ddl approve NAME ID` or `replicator ddl reject NAME ID` decides; `replicator ddl list` shows what waits",
            table=str(record.table),
        )


def replicates_by_snapshots(run: Run) -> bool:
    """Whether the engine copies the source's tables."""
    return takes_snapshots(run, _no_tables(run))


def _no_tables(run: Run) -> EventReaderDefinition:
    return EventReaderDefinition({}, run.pipeline.out_of_range)


def _records(lifecycle: TableLifecycle, arguments: Mapping[str, Any]) -> list[TableRecord]:
    known = _known(lifecycle)
    return [known[table] for table in dict.fromkeys(find_table(name, known) for name in named(arguments))]


def named(arguments: Mapping[str, Any]) -> list[str]:
    """The tables that a request names, as the operator wrote them.

    Raises:
        NeedsUserError: RPL-1225 when it names none.
    """
    names = arguments.get("tables")
    if not isinstance(names, list) or not names:
        raise NeedsUserError("the request names no tables", code="RPL-1225", hint="give the command again")
    return [str(name) for name in names]


def _known(lifecycle: TableLifecycle) -> dict[TableId, TableRecord]:
    selected = lifecycle.run.pipeline.selection.matches
    return {table: record for table, record in lifecycle.records.items() if selected(table) is not None}


def _missing(lifecycle: TableLifecycle, arguments: Mapping[str, Any]) -> list[str]:
    """Those that `tables` names and no run has found: each attempt looks for them, as the next one does."""
    entries = lifecycle.run.pipeline.selection.unmatched(_known(lifecycle))
    exact = {entry_parts(entry) for entry in entries if not is_pattern(entry)}
    wanted = {name: parse_name(name) or () for name in named(arguments)}
    return [name for name, parts in wanted.items() if parts and any(entry[-len(parts) :] == parts for entry in exact)]
