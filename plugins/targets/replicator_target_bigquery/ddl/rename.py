"""Renames a table at the target, within its dataset."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from replicator_sdk.errors import BugError, RetryableError, SnapshotNeededError
from replicator_sdk.event import DDLEvent
from replicator_sdk.failpoint import failpoint, register
from replicator_target_bigquery.commit_log.commit import DROPPED, TableState
from replicator_target_bigquery.sql.table_ref import TableRef
from replicator_target_bigquery.sql.text import name
from replicator_target_bigquery.tables.target_table import TargetTable, former_columns

register("bigquery.rename.begun", "bigquery.rename.renamed", "bigquery.rename.committed")
_REFUSED: Final = frozenset({"RPL-6515", "RPL-6516"})  # for a reason of its own, or since rows were streamed into it


def is_possible(former: TableRef, table: TableRef) -> bool:
    """Whether BigQuery renames the one table to the other: within one dataset, and where the two names differ there."""
    return (former.project, former.dataset) == (table.project, table.dataset) and former.table != table.table


def rename(former: TargetTable, table: TargetTable, event: DDLEvent) -> None:
    """Rename a table; a replay finds it done. Called under both tables' locks.

    First a note is committed under the new name: it has the table's progress, so that a table of that name is known as this
    replicator's. Then the table is renamed, then the position is committed under both names.

    Args:
        former: The table under its former name.
        table: The table under its new name.
        event: The source's event.

    Raises:
        SnapshotNeededError: When the table is missing at the target, would have to move to another dataset, or when there is
            a table of the new name, or when BigQuery refuses, or when another program has put another table in its place.
    """
    if event.position is None:
        raise BugError("a RENAME_TABLE without a position", code="RPL-6550", table=str(event.table))
    state, old = table.state(), former.state()
    arrived = state.has_reached(event.position) and not state.dropped
    if not arrived:
        _move(former, table, event)
        row = table.row(table.progress_at(event.position, event.sequence_number), "ddl")
        table.commit(replace(row, place=table.here()))
        failpoint("bigquery.rename.committed")
    left = old.progress
    if left is not None and not old.dropped and not event.position <= left.position:  # else a later table of that name
        table.session.catalogue.drop(former.ref.staging_id, event.table)
        former.commit(former.row(former.progress_at(event.position, event.sequence_number), "ddl", kind=DROPPED))


def _move(former: TargetTable, table: TargetTable, event: DDLEvent) -> None:
    """Note the rename and carry it out, as far as neither is done."""
    what = f"rename-{event.position}"
    begun = _is_begun(table.state(), what)
    if table.found() is not None:
        if not begun:
            raise _in_use(table, event)
        return
    _check(former, table, event)
    if not begun:
        old = former.state()
        row = table.row(old.progress, what, note=former_columns(old.kept))
        chunks = old.last.chunks if old.last is not None else frozenset()
        table.commit(replace(row, chunks=chunks, place=None))
        failpoint("bigquery.rename.begun")
    _rename_unmatched(former, table, event)
    _run(former, table, event)
    failpoint("bigquery.rename.renamed")
    former.changed()
    table.changed()


def _is_begun(state: TableState, what: str) -> bool:
    """Whether the last row with data is the note of this rename."""
    return state.last is not None and state.last.batch.startswith(f"{what}@")


def _check(former: TargetTable, table: TargetTable, event: DDLEvent) -> None:
    old = former.state()
    if old.progress is None or old.dropped or former.found() is None:
        raise SnapshotNeededError(
            "the table to rename is not at the target",
            code="RPL-6557",
            table=str(event.table),
            hint="nothing to do: the table is copied under its new name",
        )
    if former.is_replaced():
        raise former.replaced(event.table)
    if not is_possible(former.ref, table.ref):
        raise SnapshotNeededError(
            "the source moved the table to another schema; BigQuery cannot move one to another dataset",
            code="RPL-6558",
            table=str(event.table),
            hint="nothing to do: the table is copied under its new name",
        )


def _in_use(table: TargetTable, event: DDLEvent) -> SnapshotNeededError:
    return SnapshotNeededError(
        f"the source renamed the table to the name of one that is at the target: {table.ref.id}",
        code="RPL-6567",
        table=str(event.table),
        hint="nothing to do: the table is copied under its new name",
    )


def _rename_unmatched(former: TargetTable, table: TargetTable, event: DDLEvent) -> None:
    """Rename the table of removals whose rows are not there yet, before the table whose rows they are; a replay finds it done."""
    note = table.state().last
    assert note is not None
    if former.has_unmatched():
        job = f"{table.ref.dataset}_{table.ref.table}_{note.batch}_unmatched"
        new = name(table.ref.unmatched_id.rsplit(".", 1)[1])
        sql = f"ALTER TABLE {former.ref.unmatched_sql} RENAME TO {new}"
        table.session.jobs.query(job, sql, f"renaming {former.ref.unmatched_id}", event.table)
        former.forget_unmatched()
        table.forget_unmatched()


def _run(former: TargetTable, table: TargetTable, event: DDLEvent) -> None:
    """Run the statement; its job is named after the note, so that every run that carries this rename out finds the same job.

    Revisions begin again with the dataset, jobs are never forgotten: by the note's position a rename differs from an earlier one.
    """
    note = table.state().last
    assert note is not None
    job = f"{table.ref.dataset}_{table.ref.table}_{note.batch}"
    sql = f"ALTER TABLE {former.ref.sql} RENAME TO {name(table.ref.table)}"
    try:
        table.session.jobs.query(job, sql, f"renaming {former.ref.id}", event.table)
    except RetryableError as err:
        if err.code not in _REFUSED:
            raise
        raise SnapshotNeededError(
            f"BigQuery does not rename {former.ref.id}; it renames no table into which rows were streamed in the last hours",
            code="RPL-6568",
            table=str(event.table),
            hint="nothing to do: the table is copied under its new name",
        ) from err
