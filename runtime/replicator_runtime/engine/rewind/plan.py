"""Plans a rewind: how far back each table goes, or why it stays. Changes nothing."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from replicator_runtime.engine.rewind.choice import Wanted, choose, newest_until
from replicator_runtime.engine.run_state.plugin_contexts import kept_by_source
from replicator_sdk import Position, RewindableConsumer
from replicator_sdk.errors import HistoryLostError, NeedsUserError, ReplicatorError

if TYPE_CHECKING:
    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
    from replicator_runtime.engine.rewind.choice import Choice
    from replicator_runtime.engine.run_state.run import Run
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_sdk import EarlierVersion, EventConsumer, Offset, TableId

_IDENTITY = re.compile(r"(\d+)-(\d+)-(\d+)-(\d+)")
_LATER = "choose a later offset from `replicator offsets list`; nothing was changed"


@dataclass(frozen=True, slots=True)
class TablePlan:
    """One table in a rewind.

    Attributes:
        table: The table.
        now: Its position; None when it has none.
        back: The position that it goes back to; None when it stays.
        what: The version that it goes back to, or why it stays.
        rows_now: How many rows it has; None where unknown.
        rows_then: How many it has then.
    """

    table: TableId
    now: Position | None
    back: Position | None
    what: str
    rows_now: int | None = None
    rows_then: int | None = None


@dataclass(frozen=True, slots=True)
class RewindPlan:
    """A rewind that can be done.

    Attributes:
        choice: The offset to go back to.
        saved: The offset that is saved now.
        repeated: How many changes of the log are read again, by their sequence numbers.
        tables: Every table, in order.
    """

    choice: Choice
    saved: str
    repeated: int
    tables: tuple[TablePlan, ...]


class _NotWholeError(Exception):
    """A table has no version that is whole at an offset; the one before it is up to `until`."""

    def __init__(self, table: TableId, until: Offset) -> None:
        super().__init__(table, until)
        self.table = table
        self.until = until


def rewindable(consumer: EventConsumer) -> RewindableConsumer:
    """The consumer, if its target can go back.

    Raises:
        NeedsUserError: RPL-1274 when it cannot.
    """
    if isinstance(consumer, RewindableConsumer):
        return consumer
    raise NeedsUserError(
        "the target has no earlier versions of its tables to go back to; the offset alone would change nothing, since each table"
        " skips what it has",
        code="RPL-1274",
        hint="copy a table again with `replicator table resync NAME TABLE --in-place`, or all with `replicator reset PIPELINE`",
    )


def check_log(run: Run, choice: Choice) -> None:
    """See that the source still has the log after the offset, and that what is stored of the source reaches back to it.

    Raises:
        HistoryLostError: RPL-1275 when it has not, RPL-1286 when it does not.
        ReplicatorError: As the source cannot be asked.
    """
    try:
        run.pipeline.source.check_state(choice.offset, kept_by_source(run))
    except HistoryLostError as error:
        raise HistoryLostError(
            f"what is stored of the source's tables begins after {choice.offset}, as after a `heal`: the log from there on could"
            f" not be decoded ({error.code})",
            code="RPL-1286",
            position=str(choice.offset),
            hint=_LATER,
        ) from error
    try:
        run.pipeline.source.check_log(choice.offset, namespace=run.config.namespace, name=run.config.name)
    except HistoryLostError as error:
        raise HistoryLostError(
            f"the source no longer has the log after {choice.offset}, so it cannot be read again: {error.message}"
            f" ({error.code})",
            code="RPL-1275",
            position=str(choice.offset),
            hint=_LATER,
        ) from error


def plan_rewind(lifecycle: TableLifecycle, consumer: RewindableConsumer, choice: Choice) -> RewindPlan:
    """Find each table's version.

    Raises:
        NeedsUserError: RPL-1276 when a table has no version that is whole at the offset; as `RewindableConsumer.find_version`.
        FencedError: When a newer run has written a table.
    """
    run = lifecycle.run
    try:
        tables = _plan_tables(lifecycle, consumer, choice)
    except _NotWholeError as refused:
        name = _earlier(lifecycle, consumer, choice, refused.until)
        stays = "copy the table again, then it stays as it is: `replicator table resync NAME TABLE`"
        raise NeedsUserError(
            f"the table has no version that is whole at {choice.offset}: a commit holds changes of before and after it, since the"
            " table was ahead of the saved offset then, or got its lane later",
            code="RPL-1276",
            table=str(refused.table),
            hint=f"give `--offset {name}`, an earlier one to which all tables can go back; or {stays}"
            if name
            else f"{stays}; or {_LATER}",
        ) from None
    repeated = max(0, run.saved_sequence - choice.saved.sequence_number)
    return RewindPlan(choice, str(run.saved_offset), repeated, tables)


def _plan_tables(lifecycle: TableLifecycle, consumer: RewindableConsumer, choice: Choice) -> tuple[TablePlan, ...]:
    run = lifecycle.run
    records = sorted(lifecycle.records.values(), key=lambda record: record.table)
    with ThreadPoolExecutor(run.limits.parallel_tables, thread_name_prefix="rewind") as pool:
        return tuple(pool.map(lambda record: _plan(run, consumer, record, choice), records))


def _earlier(lifecycle: TableLifecycle, consumer: RewindableConsumer, choice: Choice, until: Offset) -> str:
    """The name of an offset before `choice` to which a rewind can be done; empty when none is kept, or it cannot be said."""
    run = lifecycle.run
    while name := newest_until(run, choice, until):
        try:
            choice = choose(run, Wanted(name))
            check_log(run, choice)
            _plan_tables(lifecycle, consumer, choice)
        except _NotWholeError as refused:
            until = refused.until
        except ReplicatorError:
            return ""
        else:
            return name
    return ""


def _refuse_letters(run: Run, record: TableRecord) -> None:
    """Refuse a table with rows put aside: which of them were aside at an earlier position is not kept."""
    rows = run.letters.open_rows(record.copy_id)
    if rows:
        raise NeedsUserError(
            f"{rows} rows of {record.table} are put aside, and which of them were at that offset is not known any more",
            code="RPL-1285",
            hint="copy the table again first: `replicator dead-letters replay NAME TABLE`; nothing was changed",
            table=str(record.table),
        )


def _plan(run: Run, consumer: RewindableConsumer, record: TableRecord, choice: Choice) -> TablePlan:
    why = _why_it_stays(run, record, choice)
    found = None if why else consumer.find_version(record.table, Position(choice.offset))
    if found is not None and found.progress is None:
        why = "stays: created after that offset"
    if found is None or found.progress is None:
        return TablePlan(record.table, _position(consumer, record), None, why or "stays: is not after that offset")
    _refuse_letters(run, record)
    if not _is_whole(run, record, found, choice):
        raise _NotWholeError(record.table, found.progress.position.offset)
    now, back = _position(consumer, record), found.progress.position
    return TablePlan(record.table, now, back, found.name, found.rows_now, found.rows_then)


def _position(consumer: RewindableConsumer, record: TableRecord) -> Position | None:
    progress = consumer.progress(record.table)
    return None if progress is None else progress.position


def _why_it_stays(run: Run, record: TableRecord, choice: Choice) -> str:
    """Why the table is left as it is: its own position says what it skips of what is read again; empty when it goes back."""
    since, copy = record.named_since, record.snapshot
    reasons = (
        (run.pipeline.selection.matches(record.table) is None, "the pipeline does not select it"),
        (record.wants_copy or record.released, "it is to be copied again"),
        (
            record.pause is not None,
            f"it {'fails' if record.fails_in_lane else 'is paused'}, and its lane has what came since",
        ),
        (copy is None and not record.created, "it is not copied yet"),
        (copy is not None and not copy.done, "its copy has not ended"),
        (copy is not None and choice.offset < copy.first, "copied after that offset"),
        (record.dropping is not None, "the source has dropped it"),
        (since is not None and Position(choice.offset) < since, "renamed after that offset"),
    )
    return next((f"stays: {why}" for is_so, why in reasons if is_so), "")


def _is_whole(run: Run, record: TableRecord, found: EarlierVersion, choice: Choice) -> bool:
    """Whether the version has every change up to the offset, since only what follows the offset is read again.

    A table may have been ahead of the saved offset, for example while another was copied: then one commit may hold changes
    before the offset and after it, and the version before that commit lacks some. So may one that a later run made of a
    lane: the offset had passed what was in it. A batch says its first sequence number, which is above the offset's where the
    offset's run, or a later one, read all of it after the offset. Earlier runs may have given other numbers.
    """
    progress = found.progress
    assert progress is not None
    is_of_copy = progress.snapshot_chunks is None and progress.snapshot_id in {"", record.copy_id}
    return is_of_copy and _begins_after(run, found, choice)


def _begins_after(run: Run, found: EarlierVersion, choice: Choice) -> bool:
    """Whether the commit after the version holds nothing up to the offset."""
    identity = _IDENTITY.fullmatch(found.following.batch)
    if identity is None:
        return True  # no batch: a change of structure, which is after the offset as the commit's position is
    generation, epoch, first, _ = map(int, identity.groups())
    if generation != run.generation:
        return False
    return epoch >= choice.epoch and first > choice.saved.sequence_number
