"""Renames a table at the target, within its dataset."""

from __future__ import annotations

from replicator_sdk.errors import BugError, NeedsUserError
from replicator_sdk.event import DDLEvent
from replicator_sdk.failpoint import failpoint, register
from replicator_target_bigquery.commit_log.commit import DROPPED
from replicator_target_bigquery.sql.text import name
from replicator_target_bigquery.tables.target_table import TargetTable, former_columns

register("bigquery.ddl.begun", "bigquery.ddl.step", "bigquery.ddl.done")


def rename(former: TargetTable, table: TargetTable, event: DDLEvent) -> None:
    """Rename a table; a replay finds it done. Called under both tables' locks.

    Args:
        former: The table under its former name.
        table: The table under its new name.
        event: The source's event.

    Raises:
        NeedsUserError: When the table is missing at the target, or would have to move to another dataset.
    """
    if event.position is None:
        raise BugError("a RENAME_TABLE without a position", code="RPL-6550", table=str(event.table))
    state, old = table.state(), former.state()
    arrived = state.has_reached(event.position) and not state.dropped
    if not arrived and table.found() is None:
        _check(former, table, event)
        # Noted under the new name first: from now on a table of that name is known as this replicator's.
        table.commit(table.row(old.progress, "rename-begun", note=former_columns(old.kept)))
        failpoint("bigquery.ddl.begun")
        _run(former, table, event)
        failpoint("bigquery.ddl.step")
        former.changed()
        table.changed()
    if not arrived:
        table.commit(table.row(table.progress_at(event.position, event.sequence_number), "ddl"))
    left = old.progress
    if left is not None and not old.dropped and not event.position <= left.position:  # else a later table of that name
        table.session.catalogue.drop(former.ref.staging_id, event.table)
        former.commit(former.row(former.progress_at(event.position, event.sequence_number), "ddl", kind=DROPPED))
    failpoint("bigquery.ddl.done")


def _check(former: TargetTable, table: TargetTable, event: DDLEvent) -> None:
    old = former.state()
    if old.progress is None or old.dropped or former.found() is None:
        raise NeedsUserError(
            "the table to rename is not at the target",
            code="RPL-6557",
            table=str(event.prev_table),
            hint="take a snapshot of the table under its new name",
        )
    if former.ref.dataset != table.ref.dataset:
        raise NeedsUserError(
            "the source moved the table to another schema; BigQuery cannot move one to another dataset",
            code="RPL-6558",
            table=str(event.table),
            hint="take a snapshot of the table under its new name",
        )


def _run(former: TargetTable, table: TargetTable, event: DDLEvent) -> None:
    table.session.jobs.query(
        f"{table.ref.dataset}_{table.ref.table}_rename_{table.state().revision}",
        f"ALTER TABLE {former.ref.sql} RENAME TO {name(table.ref.table)}",
        f"renaming {former.ref.id}",
        event.table,
    )
