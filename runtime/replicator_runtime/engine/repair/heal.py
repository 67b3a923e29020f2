"""Goes on after a lost log: reads on from where the log is now, and writes what changed in between by comparing each table.

The log is begun at a position N, as at a first start. Each table is compared with the source's rows at a later position P, and
the rows that differ are written, as a repair does, with the changes up to P noted as repeated. Last the offset N is saved. Until then the
saved offset is the old one, of which the source says again that its log is lost: a run ends as before, and `heal` does all again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import structlog

from replicator_runtime.engine.archive.archive import ChangeArchive
from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
from replicator_runtime.engine.preparation.log_preparation import NoEmitter
from replicator_runtime.engine.repair.differences import differing_keys
from replicator_runtime.engine.repair.history_gaps import HealedTable, HistoryGap, note_gap
from replicator_runtime.engine.repair.table_repair import TableRepair
from replicator_runtime.engine.run_state.open_run import check_user, has_run, keeping_lease, open_run
from replicator_runtime.engine.run_state.plugin_contexts import SourceContext, TargetContext, takes_snapshots
from replicator_runtime.engine.structure.kept_columns import prevents_copy_beside
from replicator_runtime.engine.tables.rewind_note import load_note
from replicator_runtime.engine.verification.reading import no_rows, snapshot_definition
from replicator_sdk import BatchConsumer
from replicator_sdk.authoring.row_repair import RepairableConsumer
from replicator_sdk.errors import (
    HistoryLostError,
    NeedsUserError,
    RetryableError,
    SchemaDriftError,
    TableHistoryLostError,
)
from replicator_sdk.failpoint import failpoint, register
from replicator_state import check_identity

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from replicator_runtime.config import Pipeline
    from replicator_runtime.engine.run_state.run import Run
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_sdk import EventReaderDefinition, Offset, TableId

register("engine.heal.begun", "engine.heal.tables", "engine.heal.saved")
log = structlog.get_logger()
_COPIED_FOR = frozenset({"RPL-1373", "RPL-1375"})
"""What would come again: values that do not come back as they were, and a table that is further than the source."""


@dataclass(frozen=True, slots=True)
class HealPlan:
    """What a heal will do, as far as that shows before source and target are compared.

    Attributes:
        lost: Why the log after the saved offset is lost.
        after: The saved offset.
        compared: The tables that are compared, row by row.
        copied: The tables that a run copies again, with the reason.
    """

    lost: HistoryLostError
    after: str
    compared: tuple[TableId, ...]
    copied: tuple[tuple[TableId, str], ...]


def heal(pipeline: Pipeline, confirm: Callable[[HealPlan], None]) -> HistoryGap:
    """Go on after a lost log.

    Args:
        pipeline: The pipeline.
        confirm: Given the plan, while no run can start; raises to change nothing.

    Returns:
        What was lost, and what was done of each table.

    Raises:
        NeedsUserError: RPL-1231 when it never ran; RPL-1382 when the log is there; RPL-1383 when the source's log is not after the
            saved offset now; RPL-1361 for a source without snapshots; RPL-1384 for a target that cannot write single rows again; RPL-1385
            while a rewind is to be finished; RPL-7130 when a run goes on; RPL-7106 for root where the state is another user's.
        HistoryLostError: RPL-7140 when the source is another one.
        ReplicatorError: As source, target or state fail; given again it does all again.
    """
    if not has_run(pipeline):
        raise NeedsUserError(
            "it never ran: there is nothing to heal", code="RPL-1231", hint="start it with `replicator run`"
        )
    check_user(pipeline)
    with open_run(pipeline) as run, keeping_lease(run):
        try:
            return _Heal(run).run(confirm)
        finally:
            run.spark.stop()


class _Heal:
    """Of one run, which has the lease and streams nothing.

    Args:
        run: The run.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._lifecycle = TableLifecycle(run)

    def run(self, confirm: Callable[[HealPlan], None]) -> HistoryGap:
        """As `heal`."""
        run, lifecycle = self._run, self._lifecycle
        run.load_offset()
        lifecycle.load()
        check_identity(run.store, run.pipeline.source.identity())
        definition = snapshot_definition(run.pipeline, lifecycle.records)
        self._check(definition)
        plan = self._plan(self._lost(definition))
        confirm(plan)
        present = self._present()
        start = self._begin_log(replace(definition, tables={}), present)
        failpoint("engine.heal.begun")
        healed = [self._healed(record, present) for record in self._records()]
        lifecycle.save()
        failpoint("engine.heal.tables")
        now = datetime.now(UTC).isoformat(timespec="seconds")
        gap = HistoryGap(plan.after, str(start), now, plan.lost.code, tuple(healed))
        note_gap(run.store, gap)
        self._note_in_archive(healed)
        run.save_offset(start, self._last_sequence())
        failpoint("engine.heal.saved")
        log.warning("history.healed", after=gap.after, until=gap.until, code=gap.code)
        return gap

    def _note_in_archive(self, healed: Sequence[HealedTable]) -> None:
        """Note that the archive lacks what was lost; a table that is copied again has its rows there again."""
        if self._run.config.archive is not None:
            tables = [one.table for one in healed if one.result == "healed"]
            ChangeArchive(self._run, self._run.archive_stage).note_gap(tables, "the source had lost its log")

    def _last_sequence(self) -> int:
        """The highest sequence number that was given: a table may have one above the saved, and its change is not read again."""
        run = self._run
        consumer = run.pipeline.target.create_consumer(TargetContext(run))
        try:
            consumer.start()
            assert isinstance(consumer, BatchConsumer)
            found = [consumer.progress(record.table) for record in self._records()]
        finally:
            consumer.stop()
        return max([run.saved_sequence, *(progress.last_sequence for progress in found if progress is not None)])

    def _check(self, definition: EventReaderDefinition) -> None:
        """Refuse what cannot be healed, before anything is asked or changed."""
        run = self._run
        if run.saved_offset is None:
            raise NeedsUserError(
                "it has saved no offset: there is nothing to heal",
                code="RPL-1231",
                hint="start it with `replicator run`",
            )
        if not takes_snapshots(run, definition):
            raise no_rows()
        if load_note(run.store, run.read_offset) is not None:
            raise NeedsUserError(
                "a rewind was begun and is not finished",
                code="RPL-1385",
                hint="have every table copied again: `replicator reset PIPELINE`",
            )
        consumer = run.pipeline.target.create_consumer(TargetContext(run))
        consumer.stop()
        if not (isinstance(consumer, RepairableConsumer) and isinstance(consumer, BatchConsumer)):
            raise NeedsUserError(
                f"the target {run.pipeline.target.name} cannot write single rows again, so every table would be copied",
                code="RPL-1384",
                hint="have every table copied again: `replicator reset PIPELINE`",
            )

    def _lost(self, definition: EventReaderDefinition) -> HistoryLostError:
        """Why a run would end with exit code 7, found as a run finds it.

        Raises:
            NeedsUserError: RPL-1382 when it would not.
        """
        reader = self._run.pipeline.source.create_reader(definition, SourceContext(self._run), NoEmitter())
        try:
            reader.initialize(self._run.saved_offset)
        except TableHistoryLostError:
            pass  # a run has that table copied again
        except HistoryLostError as lost:
            return lost
        finally:
            reader.close()
        raise NeedsUserError(
            f"the source has its log after the saved offset {self._run.saved_offset}: nothing is lost",
            code="RPL-1382",
            hint="`replicator run` goes on; `replicator verify NAME --repair` writes rows again that another program has changed",
        )

    def _plan(self, lost: HistoryLostError) -> HealPlan:
        whys = [(record.table, self._why_copied(record)) for record in self._records()]
        compared = tuple(table for table, why in whys if not why)
        return HealPlan(lost, str(self._run.saved_offset), compared, tuple(found for found in whys if found[1]))

    def _records(self) -> Sequence[TableRecord]:
        """The tables that the pipeline selects and the target has, or is to have."""
        selects = self._run.pipeline.selection.matches
        records = self._lifecycle.records.values()
        return sorted((r for r in records if r.schemas and selects(r.table)), key=lambda record: record.table)

    def _why_copied(self, record: TableRecord) -> str:
        """Why it cannot be healed, as far as that is stored; empty when it may be."""
        try:
            TableRepair(self._lifecycle, record, lambda *_: None).check()
        except NeedsUserError as error:
            return error.message
        return ""

    def _begin_log(self, definition: EventReaderDefinition, present: frozenset[TableId]) -> Offset:
        """Have the source hold its log from now on, with the changes of all tables, as at a first start.

        Raises:
            NeedsUserError: RPL-1383.
        """
        run = self._run
        assert run.saved_offset is not None
        reader = run.pipeline.source.create_reader(definition, SourceContext(run), NoEmitter())
        try:
            start = reader.initialize(None)
            # Of files of two servers neither is before the other.
            if start != run.saved_offset and not run.saved_offset < start:
                raise NeedsUserError(
                    f"the source's log is at {start} now, which is not after the saved offset {run.saved_offset}: it is another log",
                    code="RPL-1383",
                    hint="have every table copied again: `replicator reset PIPELINE`",
                )
            reader.capture([record.schema for record in self._records() if record.table in present])
        finally:
            reader.close()
        return start

    def _present(self) -> frozenset[TableId]:
        """The tables that the source has now; all where it does not list them."""
        with self._run.pipeline.source.create_table_registry() as registry:
            if not registry.lists_all:
                return frozenset(self._lifecycle.records)
            return frozenset(summary.table for summary in registry.list_tables())

    def _healed(self, record: TableRecord, present: frozenset[TableId]) -> HealedTable:
        """Write what differs, or have a run copy the table.

        Raises:
            ReplicatorError: What says nothing of the table, or may pass.
        """
        if record.table not in present:
            return self._left(record)
        run = self._run
        try:
            done = TableRepair(self._lifecycle, record, partial(differing_keys, run.spark.session())).run()
        except (NeedsUserError, SchemaDriftError) as error:
            if not error.table:
                raise  # it concerns the source or the target
            return self._copied(record, error.message)
        except RetryableError as error:
            if error.code not in _COPIED_FOR:
                raise
            return self._copied(record, error.message)
        return HealedTable(record.table, "healed", done.written, done.deleted)

    def _copied(self, record: TableRecord, why: str) -> HealedTable:
        """Have a run copy it again; what it has in a lane is of before the gap."""
        run, lifecycle = self._run, self._lifecycle
        if record.pause is not None:
            lifecycle.drop_lane(record, why="the log after it is lost")
        else:
            target = run.pipeline.target
            beside = target.copies_beside and run.config.snapshot.max_rows_per_second is None
            beside &= not prevents_copy_beside(record, target)
            lifecycle.want_copy(record, f"heal {run.run_id}", beside=beside and not record.needs_snapshot)
        return HealedTable(record.table, "copied", why=why)

    def _left(self, record: TableRecord) -> HealedTable:
        """The source has dropped or renamed it, and its log does not say so any more."""
        self._lifecycle.forget(record.table)
        return HealedTable(record.table, "left", why="the source does not have it any more")
