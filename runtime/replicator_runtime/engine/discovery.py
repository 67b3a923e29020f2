"""Finds the tables that are to be replicated, and those that are gone."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from replicator_runtime.config.selection import entry_name, is_pattern
from replicator_runtime.engine.progress import TableState
from replicator_runtime.engine.tables import TableRecord
from replicator_runtime.redaction import redact
from replicator_sdk.errors import NeedsUserError

if TYPE_CHECKING:
    from replicator_runtime.config import PipelineConfig, Selection
    from replicator_runtime.engine.run import Run
    from replicator_sdk import TableId, TableRegistry, TableSchema


def discover(run: Run) -> list[TableRecord]:
    """Bring the table book up to date with the source's catalogue; returns the records of tables that are there.

    Tables known already keep their schemas: the log tells when they change. New ones are described.

    Raises:
        NeedsUserError: When a table named in the pipeline is not there, or nothing is selected at all.
    """
    with run.pipeline.source.create_table_registry() as registry:
        records = run.book.records
        present = [summary.table for summary in registry.list_tables()]
        if not registry.lists_all:
            present += [r.table for r in records.values() if r.schemas and r.table not in present]
        check_named_tables(run.pipeline.selection, present)
        first = not records
        for table in present:
            if run.pipeline.selection.matches(table) is None:
                continue
            if table not in records and (first or run.config.new_tables == "include" or _is_named(run, table)):
                records[table] = TableRecord(table)
            if table in records and not records[table].schemas:
                schema = _described(run, registry, table)
                if schema is None:
                    del records[table]
                else:
                    records[table].learn(None, schema)
    selected = [records[t] for t in present if t in records and run.pipeline.selection.matches(t) is not None]
    for record in records.values():
        record.selected = record in selected
    if not selected:
        raise NeedsUserError(
            "the source has no table that the pipeline selects",
            code="RPL-2002",
            hint="look at `replicator tables` and at the pipeline's `tables`",
        )
    return selected


def unknown_tables(run: Run) -> list[TableId]:
    """Selected tables at the source that this run does not know yet; opens a connection of its own."""
    with run.pipeline.source.create_table_registry() as registry:
        present = [summary.table for summary in registry.list_tables()]
    return [t for t in present if t not in run.book.records and run.pipeline.selection.matches(t) is not None]


def _described(run: Run, registry: TableRegistry, table: TableId) -> TableSchema | None:
    """The schema of a table that was listed a moment ago; None when it has been dropped or renamed since."""
    try:
        return describe(run, registry, table)
    except NeedsUserError:
        if any(summary.table == table for summary in registry.list_tables()):
            raise
        return None


def describe(run: Run, registry: TableRegistry, table: TableId) -> TableSchema:
    """The table's schema, with the selected columns only."""
    schema = registry.describe_table(table)
    selected = run.pipeline.selection.matches(table)
    if selected is None or selected.columns is None:
        return schema
    missing = [name for name in selected.columns if name not in schema]
    if missing:
        near = difflib.get_close_matches(missing[0], schema.names, 1)
        raise NeedsUserError(
            f"the table has no column {missing[0]!r}",
            code="RPL-2003",
            hint=f"did you mean {near[0]!r}?" if near else "its columns: " + ", ".join(schema.names[:20]),
            table=str(table),
        )
    if not schema.primary_key:
        raise NeedsUserError(
            "columns cannot be selected of a table without a key",
            code="RPL-2004",
            hint="replicate all its columns, or give it a primary key",
            table=str(table),
        )
    return schema.select(selected.columns)


def check_named_tables(selection: Selection, present: list[TableId]) -> None:
    """Tables named in the pipeline without any pattern must be there.

    Raises:
        NeedsUserError: Naming the first that is not, and the nearest one that is.
    """
    for entry in selection.unmatched(present):
        if is_pattern(entry):
            continue
        near = difflib.get_close_matches(entry_name(entry), [str(t) for t in present] + [t.table for t in present], 1)
        raise NeedsUserError(
            f"the source has no table {entry_name(entry)}",
            code="RPL-2001",
            hint=f"did you mean {near[0]}?" if near else "`replicator tables` lists what the user may see",
            table=entry_name(entry),
        )


def mark_failing(run: Run, record: TableRecord, error: Exception) -> None:
    """Show and keep that the table stands still, and why."""
    record.state = TableState.FAILING
    record.error = {
        "code": getattr(error, "code", ""),
        "message": redact(getattr(error, "message", str(error))),
        "hint": redact(getattr(error, "hint", "")),
    }
    run.progress.set_table(record.table, TableState.FAILING, redact(str(error)))


def has_patterns(config: PipelineConfig) -> bool:
    """Whether tables may join that the pipeline does not name."""
    return not config.tables or any(map(is_pattern, config.tables))


def _is_named(run: Run, table: TableId) -> bool:
    return any(not is_pattern(e) and e.table == table.table for e in run.config.tables)
