"""Describes single tables as they are at the source, with the columns that the pipeline selects."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from replicator_sdk.errors import NeedsUserError

if TYPE_CHECKING:
    from replicator_runtime.config import SelectedTable
    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
    from replicator_runtime.engine.run_state.run import Run
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_sdk import TableId, TableRegistry, TableSchema


def describe_again(lifecycle: TableLifecycle, record: TableRecord) -> bool:
    """Whether a table whose copy failed is still there; one that has other columns by now is copied with those."""
    run = lifecycle.run
    with run.pipeline.source.create_table_registry() as registry:
        there = any(summary.table == record.table for summary in registry.list_tables())
        schema = describe_listed(run, registry, record.table) if there else None
    if schema is None:
        lifecycle.forget(record.table)
        return False
    is_begun_empty = record.snapshot is not None and record.snapshot.is_empty  # the log has what was altered since
    if schema != record.schema and not is_begun_empty:
        lifecycle.run.table_store.note_remains(record)
        record.snapshot, record.schemas = None, [(None, schema)]
    lifecycle.save()
    return True


def describe_listed(run: Run, registry: TableRegistry, table: TableId) -> TableSchema | None:
    """The schema of a table that was listed a moment ago; None when it has been dropped or renamed since."""
    try:
        return describe(run, registry, table)
    except NeedsUserError:
        if all(summary.table != table for summary in registry.list_tables()):
            return None
    return describe(run, registry, table)  # another table may have taken its place just then


def describe(run: Run, registry: TableRegistry, table: TableId) -> TableSchema:
    """The table's schema, with the selected columns only."""
    schema = registry.describe_table(table)
    selected = run.pipeline.selection.matches(table)
    return schema if selected is None else selected_part(selected, schema)


def selected_part(selected: SelectedTable, schema: TableSchema) -> TableSchema:
    """The selected columns of a described table.

    Raises:
        NeedsUserError: RPL-2003 when a column is missing, RPL-2004 when columns are selected of a table without a key.
    """
    if selected.columns is None:
        return schema
    missing = [name for name in selected.columns if name not in schema]
    if missing:
        near = difflib.get_close_matches(missing[0], schema.names, 1)
        raise NeedsUserError(
            f"the table has no column {missing[0]!r}",
            code="RPL-2003",
            hint=f"did you mean {near[0]!r}?" if near else "its columns: " + ", ".join(schema.names[:20]),
            table=str(selected.table),
        )
    if not schema.primary_key:
        raise NeedsUserError(
            "columns cannot be selected of a table without a key",
            code="RPL-2004",
            hint="replicate all its columns, or give it a primary key",
            table=str(selected.table),
        )
    return schema.select(selected.columns)
