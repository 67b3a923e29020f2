"""Begins the tables of a pipeline that copies no rows at a position of the log that the pipeline names (`snapshot.from`).

Everything is checked before anything is stored. Then each table's plan, which has the position and its columns there, is durable
before the offset: a start that is cut off in between is made again, whatever the pipeline says by then.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from replicator_runtime.engine.preparation.scope_edits import check_whole_updates
from replicator_runtime.engine.run_state.plugin_contexts import SourceContext
from replicator_runtime.engine.tables.table_store import NO_ROWS, SnapshotRecord
from replicator_sdk import Position
from replicator_sdk.errors import NeedsUserError, ReplicatorError, RetryableError
from replicator_sdk.failpoint import failpoint, register

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_sdk import EventReader, EventReaderDefinition, Offset, StartFrom

register("engine.start.prepared", "engine.start.planned")
log = structlog.get_logger()


def begin(
    lifecycle: TableLifecycle, reader: EventReader, definition: EventReaderDefinition, records: Sequence[TableRecord]
) -> Offset:
    """Prepare the log for the first start; returns where it begins, which is to be saved next.

    Args:
        lifecycle: Of all tables; no offset is saved.
        reader: Prepares the log.
        definition: For readers.
        records: The tables that work.

    Raises:
        NeedsUserError: RPL-2072 when a table cannot begin there; then none does, and nothing is stored.
        ReplicatorError: As `DeltaSource.find_start` and `EventReader.begin_at`.
    """
    run = lifecycle.run
    chosen = run.config.snapshot.from_
    _forget_plans(run.table_store.records.values())
    if chosen is None:
        return reader.initialize(None)
    start, source = chosen.start, run.pipeline.source
    offset = source.find_start(start, namespace=run.config.namespace, name=run.config.name)
    log.info("run.starts_at", position=str(offset), chosen=str(start))
    try:
        for failed in lifecycle.stopped.values():
            raise failed
        schemas = [record.schema for record in records]
        found = reader.begin_at(offset, schemas)
        reader.capture(schemas)
        _check_updates(lifecycle, definition, records)
    except ReplicatorError as error:
        if error.table is None or isinstance(error, RetryableError):
            raise
        raise _refused(start, error) from error
    failpoint("engine.start.prepared")
    for record in records:
        record.learn_from_copy(Position(offset), found[record.table])
        record.snapshot = SnapshotRecord(uuid.uuid4().hex, (), offset, offset, where=NO_ROWS)
        record.was_begun = True
    lifecycle.save()
    failpoint("engine.start.planned")
    return offset


def _forget_plans(records: Iterable[TableRecord]) -> None:
    """Forget where tables were to begin by a start that was cut off, also those not selected any more: none has begun before an offset
    is saved.
    """
    for record in records:
        record.snapshot, record.was_begun = None, False


def _check_updates(
    lifecycle: TableLifecycle, definition: EventReaderDefinition, records: Sequence[TableRecord]
) -> None:
    """Check that updates of rows which the target does not have can be applied; reads no rows where the source filters them."""
    run = lifecycle.run
    if not run.pipeline.source.filters_snapshots:
        return
    conditions = {record.table: NO_ROWS for record in records}
    snapshots = run.pipeline.source.create_snapshot_reader(
        replace(definition, conditions=conditions), SourceContext(run)
    )
    assert snapshots is not None, "asked when the attempt began"
    try:
        for record in records:
            with snapshots.open(record.schema) as snapshot:
                check_whole_updates(record.table, snapshot, leaves_out=True)
    finally:
        snapshots.close()


def _refused(start: StartFrom, error: ReplicatorError) -> NeedsUserError:
    """One table that cannot begin there refuses the start: begun at another position, it would lack changes."""
    return NeedsUserError(
        f"no run can begin at {start}, since {error.table} cannot: {error.message} ({error.code})",
        code="RPL-2072",
        hint=f"{error.hint}; nothing was begun",
    )
