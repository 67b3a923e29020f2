"""Decides which new tables wait, since a known one may have their name, or had it at the saved offset."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from replicator_runtime.engine.tables.table_state import TableState
from replicator_sdk.schema import rename_table

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_sdk import Offset, TableId, TableSchema

log = structlog.get_logger()


def postpone(lifecycle: TableLifecycle, new: Collection[TableId], present: Collection[TableId]) -> None:
    """Let those of the tables `new` wait that may be renamed ones; `present` are the tables in the catalogue."""
    postponed, run = lifecycle.postponed, lifecycle.run
    if not (new and lifecycle.takes_snapshots and run.saved_offset is not None):
        postponed.begin(frozenset(), frozenset(), None)
        return
    reused = frozenset(new) & _former_names(lifecycle, run.saved_offset)
    left = any(_may_be_renamed(lifecycle, record) for t, record in lifecycle.records.items() if t not in present)
    waiting = postponed.may_wait(new) - reused if left else frozenset()
    postponed.begin(waiting, reused, run.pipeline.source.latest_offset() if waiting else None)
    for table in (*waiting, *reused):
        log.info("table.postponed", table=str(table), why="it may be a known one that was renamed, or had its name")


def _may_be_renamed(lifecycle: TableLifecycle, record: TableRecord) -> bool:
    """Whether a table that the catalogue lacks is replicated, so that the log says what became of it."""
    selected = lifecycle.run.pipeline.selection.matches(record.table) is not None
    fails = record.table in lifecycle.stopped or record.state is TableState.FAILING
    return selected and not (record.needs_snapshot or record.copying or fails)


def _former_names(lifecycle: TableLifecycle, offset: Offset) -> set[TableId]:
    """Names that tables had at `offset` and have no more."""
    records = [record for record in lifecycle.records.values() if record.named_since is not None]
    return {record.schema_at(offset).table for record in records} - {record.table for record in records}


def postponement_ends(lifecycle: TableLifecycle, offset: Offset) -> bool:
    """Whether tables that waited are to be taken in, now that the stream has come to `offset`."""
    saved, reused = lifecycle.run.saved_offset, lifecycle.postponed.reused
    if reused and saved is not None and not reused <= _former_names(lifecycle, saved):
        return True
    return lifecycle.postponed.passed(offset)


def schemas_at(records: Iterable[TableRecord], offset: Offset | None) -> dict[TableId, TableSchema]:
    """The tables' schemas at `offset`, by the names that they had there.

    Where another table has that name as well, since the offset was set back, each goes by the name that it has now.
    """
    known = {record.table: record.schema if offset is None else record.schema_at(offset) for record in records}
    names = [schema.table for schema in known.values()]
    if len(set(names)) < len(names):
        return {table: rename_table(schema, table) for table, schema in known.items()}
    return {schema.table: schema for schema in known.values()}
