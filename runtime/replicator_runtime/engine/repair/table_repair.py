"""Repairs one table: some of its rows are written again, the others and the table's position stay as they are.

The rows are the source's at a position P, and the target's table is at a position T, which is not after P. So the log may
repeat what these rows hold, up to P: as for a copy that was read over a range of positions. That is stored before the rows
are written, and the changes up to P are applied as upserts and deletes.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import structlog

from replicator_runtime.engine.lifecycle.restored_tables import is_older_copy, may_lack_letters
from replicator_runtime.engine.repair.rows import read_rows
from replicator_runtime.engine.run_state.plugin_contexts import SourceContext, TargetContext
from replicator_runtime.engine.tables.rewind_note import load_note
from replicator_runtime.engine.tables.table_scope import TableScope
from replicator_runtime.engine.verification.comparable import check_comparable, not_comparable, refuse_letters
from replicator_runtime.engine.verification.reading import snapshot_definition
from replicator_sdk import BatchIdentity, Position
from replicator_sdk.authoring.row_repair import RepairableConsumer
from replicator_sdk.errors import NeedsUserError, RetryableError, SchemaDriftError
from replicator_sdk.failpoint import failpoint, register

if TYPE_CHECKING:
    from collections.abc import Callable

    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_sdk import Offset, SnapshotReader, TableProgress, TableReader, TableSnapshot, TableVersion

FindKeys: TypeAlias = "Callable[[TableSnapshot, TableVersion, frozenset[str]], Any]"
register("engine.repair.noted")
log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Repaired:
    """What was done.

    Attributes:
        written: Rows that were written as the source has them.
        deleted: Keys of which the source has no row, and the target has none now.
        position: Where the source had these rows.
    """

    written: int
    deleted: int
    position: str


class TableRepair:
    """Of one table; used once, by the engine's main thread, between attempts: no changes of the table are applied meanwhile.

    Args:
        lifecycle: Of all tables, loaded.
        record: The table.
        find_keys: Given the source's rows, the target's and the operations that the pipeline leaves out of the table: hashes of
            the keys of the rows that are written, an array of `KEY`.
    """

    def __init__(self, lifecycle: TableLifecycle, record: TableRecord, find_keys: FindKeys) -> None:
        self._lifecycle = lifecycle
        self._run = lifecycle.run
        self._record = record
        self._find_keys = find_keys
        selected = self._run.pipeline.selection.matches(record.table)
        self._left_out = frozenset[str]() if selected is None else TableScope.of(selected).left_out
        if record.keeps_rows:  # an operator has kept rows that the source has truncated
            self._left_out |= {"TRUNCATE_TABLE"}

    def run(self) -> Repaired:
        """Repair it; durable when this returns. Done again it writes the same rows as the source has them by then.

        Raises:
            FencedError: When a newer run has taken over.
            ReplicatorError: Why it was not done; the table is as it was.
        """
        self.check()
        with ExitStack() as opened:
            consumer = self._run.pipeline.target.create_consumer(TargetContext(self._run))
            opened.callback(consumer.stop)
            consumer.start()
            if not isinstance(consumer, RepairableConsumer):
                raise _not_repairable(self._run.pipeline.target.name, self._record)
            progress = self._progress(consumer)
            reader = self._snapshot_reader()
            opened.callback(reader.close)
            snapshot = opened.enter_context(reader.open(self._record.schema))
            self._check_schema(snapshot.schema == self._record.schema)
            if not progress.position <= Position(snapshot.position):
                raise self._moved(f"the source is at {snapshot.position}, the table already at {progress.position}")
            version = self._version()
            if version.progress.position != progress.position:
                raise self._moved("the target's table was written meanwhile")
            keys = self._find_keys(snapshot, version, self._left_out)
            rows = read_rows(self._run.spark.session(), snapshot, version, keys, self._left_out)
            until = snapshot.end() or snapshot.position
            self._note_overlap(until)
            failpoint("engine.repair.noted")
            if rows.written.num_rows or rows.deleted.num_rows:
                consumer.repair_rows(rows.changes(self._identity(progress)))
        found = Repaired(rows.written.num_rows, rows.deleted.num_rows, str(until))
        log.warning(
            "table.repaired",
            table=str(self._record.table),
            written=found.written,
            deleted=found.deleted,
            position=found.position,
        )
        return found

    def check(self) -> None:
        """Refuse a table that is not whole at the target, or of which that is not known; by what is stored.

        Raises:
            NeedsUserError: Why it cannot be repaired.
        """
        record, lifecycle = self._record, self._lifecycle
        check_comparable(record, self._left_out)
        refuse_letters(self._run.letter_files, record)
        if lifecycle.fails(record):
            raise not_comparable(record.table, "fails")
        if record.copying or record.dropping is not None or self._run.table_store.renames:
            raise not_comparable(record.table, "is being copied, dropped or renamed")
        if load_note(self._run.store, self._run.read_offset) is not None:
            raise not_comparable(record.table, "is being rewound")
        if not record.schema.primary_key:
            raise keyless(str(record.table))

    def _progress(self, consumer: RepairableConsumer) -> TableProgress:
        """What the target's table says of itself; from then on no older run writes it."""
        record, lifecycle = self._record, self._lifecycle
        progress = consumer.progress(record.table)
        if progress is None or progress.snapshot_chunks is not None:
            raise not_comparable(record.table, "is not at the target as this replicator left it")
        if is_older_copy(self._run, lifecycle.positions, record, progress):
            raise not_comparable(record.table, "is an older copy at the target, and is copied again")
        if may_lack_letters(self._run, record, progress):
            raise not_comparable(record.table, "may lack rows that were put aside, and is copied again by the next run")
        self._run.known_runs.add_copies([record.copy_id])
        return progress

    def _snapshot_reader(self) -> SnapshotReader:
        pipeline = self._run.pipeline
        definition = snapshot_definition(pipeline, self._lifecycle.records)
        reader = pipeline.source.create_snapshot_reader(definition, SourceContext(self._run))
        if reader is None:
            raise NeedsUserError(
                "the source takes no snapshots: it has no rows to repair a table with, only a log",
                code="RPL-1374",
                hint="compare the tables with the database that the log is of, by a pipeline of its own",
            )
        return reader

    def _version(self) -> TableVersion:
        reader: TableReader | None = self._run.pipeline.target.create_table_reader(TargetContext(self._run))
        if reader is None:
            raise _not_repairable(self._run.pipeline.target.name, self._record)
        return reader.open(self._record.schema)

    def _check_schema(self, is_same: bool) -> None:
        if not is_same:
            raise SchemaDriftError(
                "the table was altered at the source, and the target has not followed yet",
                code="RPL-6021",
                hint="give the command again once the run has applied the change of structure",
                table=str(self._record.table),
            )

    def _note_overlap(self, until: Offset) -> None:
        """Store that changes up to `until` may repeat what the table is about to hold; durable when this returns."""
        record = self._record
        assert record.snapshot is not None, "it is whole"
        if record.snapshot.last < until:
            record.snapshot.last = until
            self._lifecycle.save(record)
        # An attempt that ended so that tables can join left a watermark without that.
        self._lifecycle.settled_watermarks.pop(record.table, None)

    def _identity(self, progress: TableProgress) -> BatchIdentity:
        sequence = progress.last_sequence
        return BatchIdentity(self._run.generation, self._run.epoch, sequence, sequence, progress.position)

    def _moved(self, why: str) -> RetryableError:
        return RetryableError(
            f"{why}: nothing was changed", code="RPL-1375", hint="give the command again", table=str(self._record.table)
        )


def keyless(table: str) -> NeedsUserError:
    """The error for a table without a key."""
    return NeedsUserError(
        "the table has no key by which single rows could be repaired",
        code="RPL-1371",
        hint="copy the table again: `replicator table resync NAME TABLE`",
        table=table,
    )


def _not_repairable(target: str, record: TableRecord) -> NeedsUserError:
    return NeedsUserError(
        f"the target {target} cannot write single rows again",
        code="RPL-1370",
        hint="copy the table again: `replicator table resync NAME TABLE --in-place`",
        table=str(record.table),
    )
