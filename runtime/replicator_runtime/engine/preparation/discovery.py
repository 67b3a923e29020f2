"""Finds the tables to replicate, and the known ones that the source no longer has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from replicator_runtime.config.selection import entry_name, is_pattern
from replicator_runtime.engine.preparation.description import describe, describe_listed
from replicator_runtime.engine.preparation.new_names import postpone
from replicator_runtime.engine.preparation.selection_edits import SelectionEdits
from replicator_runtime.engine.run_state.error_policy import belongs_to_table
from replicator_runtime.engine.tables.table_scope import TableScope
from replicator_runtime.spelling import near_name
from replicator_sdk import TableId
from replicator_sdk.errors import NeedsUserError, ReplicatorError

if TYPE_CHECKING:
    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_sdk import TableRegistry

log = structlog.get_logger()
_LOOKS = 5
_LOOK_SECONDS = 0.4
WAITS_FOR_SOURCE = "it is to be copied again, and waits until the source lists it: it is gone there, or the user may not read it (grant SELECT)"
_LEFT = "the source does not list it, and it waited for a copy: what the target has of it stays; a later table of its name is copied"


def discover(lifecycle: TableLifecycle) -> list[TableRecord]:
    """Bring the table store up to date with the source's catalogue; returns the records of existing tables.

    Known tables keep their schemas: the log reports when they change. New ones are described. A table that cannot
    be described, or cannot follow an edit of the pipeline, stops alone where that is asked for.

    Raises:
        NeedsUserError: When a table named in the pipeline is missing at the very first start, or no table is left to
            replicate; the reason is the first table's that stopped, where one did.
    """
    run, records = lifecycle.run, lifecycle.records
    matches, edits = run.pipeline.selection.matches, SelectionEdits(lifecycle)
    with run.pipeline.source.create_table_registry() as registry:
        present = _listed(lifecycle, registry)
        if not registry.lists_all:
            present += [r.table for r in records.values() if r.schemas and r.table not in present]
        note_missing(lifecycle, present)
        edits.leave()
        wanted = [table for table in present if matches(table) is not None and table not in lifecycle.stopped]
        postpone(lifecycle, [t for t in wanted if t not in records and edits.takes_in(t)], present)
        for table in wanted:
            known = table in records
            if known or (edits.takes_in(table) and table not in lifecycle.postponed):
                _take_in(lifecycle, registry, edits, lifecycle.take_in(table))
    edits.save()
    _leave_missing(lifecycle, set(present))
    for table, record in records.items():
        run.progress.set_waiting(table, WAITS_FOR_SOURCE if record.wants_copy and table not in present else "")
    there = [records[t] for t in present if t in records and matches(t) is not None]
    selected = [record for record in there if record.schemas and not record.passed_over]
    taken, listed = {record.table for record in selected}, set(present)
    for table, record in records.items():
        record.selected = table in taken or record.copying  # what its copy lacks is in the log after the saved offset
        left = table not in listed and matches(table) is not None
        record.gone = left and not record.needs_snapshot and not record.copying
    # Where all tables have given the log up, it is read on without them: past what cannot be read, until their copies are due.
    waits = any(record.released and table in lifecycle.stopped for table, record in records.items())
    if not waits and not any(record.selected or record.gone or record.is_drop_decided for record in records.values()):
        raise _nothing_left(lifecycle)
    return selected


def _leave_missing(lifecycle: TableLifecycle, present: set[TableId]) -> None:
    """Forget the tables that wait for their copy and which the source does not list now.

    Such a table holds no offset, so that the log passes, with its DROP TABLE or RENAME TABLE. It is taken in as a new one when
    it is listed again; one of its name that appears later has other rows than the chunks that were copied. The target keeps
    what it has of it. One whose copy runs holds the offset: its copy reads what the table was, and the log has its last changes.
    """
    if not lifecycle.takes_snapshots:
        return
    run, records = lifecycle.run, lifecycle.records
    left = [r for t, r in records.items() if t not in present and run.pipeline.selection.matches(t) is not None]
    for record in left:
        if record.wants_copy:
            log.warning(
                "table.not_listed", table=str(record.table), later="it is copied again when the source lists it"
            )
    failing = [r for r in left if r.table in lifecycle.stopped or lifecycle.is_waiting(r)]  # its error says why
    stays = [r for r in left if r.copying or r.renames or r.pause is not None or r in failing]
    waiting = [r for r in left if r.needs_snapshot and r not in stays]
    # With `newTables: ignore` a table that is not known is never taken in: one that the catalogue leaves out for a moment, or
    # whose rights are gone for a while, would be lost. It holds nothing, and is copied when it is there again.
    if run.config.new_tables == "ignore":
        begun = [record for record in waiting if record.snapshot is not None]
        for record in begun:
            lifecycle.start_over(record, beside=True)
        if begun:
            lifecycle.save()
        return
    for record in waiting:
        log.warning("table.left", table=str(record.table), why=_LEFT)
        lifecycle.forget(record.table)


def _listed(lifecycle: TableLifecycle, registry: TableRegistry) -> list[TableId]:
    """The tables in the catalogue; asked again when all known ones are missing.

    A catalogue may leave out a table for a moment while it is renamed, or another one takes its place.
    """
    run, matches = lifecycle.run, lifecycle.run.pipeline.selection.matches
    known = [r for r in lifecycle.records.values() if matches(r.table) is not None]
    present = [summary.table for summary in registry.list_tables()]
    for _ in range(_LOOKS):
        if not known or any(matches(table) is not None for table in present) or run.stop.wait(_LOOK_SECONDS):
            break
        present = [summary.table for summary in registry.list_tables()]
    return present


def gone_tables(lifecycle: TableLifecycle) -> list[TableRecord]:
    """Known tables that the source no longer has: the log still holds their last changes and their DROP TABLE."""
    return [record for record in lifecycle.records.values() if record.gone]


def _take_in(lifecycle: TableLifecycle, registry: TableRegistry, edits: SelectionEdits, record: TableRecord) -> None:
    """Describe a table that is new, or copied again; one that cannot be described stops alone. One whose copy runs is known.

    Raises:
        ReplicatorError: What concerns more than this table.
    """
    run = lifecycle.run
    selected = run.pipeline.selection.matches(record.table)
    assert selected is not None
    if record.copying:
        return
    if record.wants_copy:
        lifecycle.start_over(record, beside=True)
        record.released, record.failing_since = False, None
    try:
        edits.join(record, registry)
        if record.schemas:
            edits.follow(record, selected, lambda: describe(run, registry, record.table))
        if record.schemas and lifecycle.takes_snapshots and record.needs_snapshot and selected.columns is not None:
            describe(
                run, registry, record.table
            )  # a selected column may be gone since, and its copy would fail for ever
        if not record.schemas:
            schema = describe_listed(run, registry, record.table)
            if schema is None:
                lifecycle.forget(record.table)
                return
            record.learn(None, schema)
            record.scope = TableScope.of(selected)
    except ReplicatorError as error:
        if not belongs_to_table(error, record.table, isolate=run.config.on_table_error == "isolate"):
            raise
        lifecycle.stop(record, error)


def _nothing_left(lifecycle: TableLifecycle) -> Exception:
    """Why there is nothing to replicate."""
    reasons = [*lifecycle.stopped.values(), *lifecycle.missing.values()]
    if reasons:
        return reasons[0]
    return NeedsUserError(
        "the source has no table that the pipeline selects",
        code="RPL-2002",
        hint="look at `replicator tables` and at the pipeline's `tables`",
    )


def unknown_tables(lifecycle: TableLifecycle) -> list[TableId]:
    """Selected tables at the source that this run does not know yet, or is to copy again; opens a connection of its own."""
    pipeline = lifecycle.run.pipeline
    with pipeline.source.create_table_registry() as registry:
        present = [summary.table for summary in registry.list_tables()]
    edits, matches = SelectionEdits(lifecycle), pipeline.selection.matches
    records = (t for t, record in lifecycle.records.items() if not record.wants_copy or t in lifecycle.stopped)
    known = [*records, *lifecycle.postponed.tables, *lifecycle.postponed.reused]
    new = [t for t in present if t not in known and matches(t) is not None]
    return [t for t in new if t in lifecycle.records or edits.takes_in(t)]


def note_missing(lifecycle: TableLifecycle, present: list[TableId]) -> None:
    """Check that tables named in the pipeline without a pattern exist.

    After the very first start a missing table is shown as FAILING and does not delay the others; for one that was
    replicated the log has the DROP TABLE. Each is looked for again at the next attempt.

    Raises:
        NeedsUserError: At the very first start, or with `onTableError` "stop": names the first missing table, and
            the nearest existing one.
    """
    run = lifecycle.run
    lifecycle.forget_missing()
    known = [r.table for r in lifecycle.records.values() if r.copying or not r.needs_snapshot or r.undecided]
    for entry in run.pipeline.selection.unmatched([*present, *known]):
        if is_pattern(entry):
            continue
        error = NeedsUserError(
            f"the source has no table {entry_name(entry)}, or its user may not read it",
            code="RPL-2001",
            hint=near_name(entry_name(entry), present)
            + "correct the name in `tables`, or grant SELECT on it; `replicator tables` lists what the user may read",
            table=entry_name(entry),
        )
        if run.saved_offset is None or run.config.on_table_error == "stop":
            raise error
        table = TableId(entry.database or "", entry.table, entry.schema_ or "")
        run.failed(table, error)
        lifecycle.show_missing(table, error)


def expects_new_tables(lifecycle: TableLifecycle) -> bool:
    """Whether tables may appear at the source: selected by a pattern, named and missing until now, or to be copied again."""
    config = lifecycle.run.config
    by_pattern = config.new_tables == "include" and lifecycle.run.pipeline.selection.has_patterns
    return by_pattern or bool(lifecycle.missing) or any(record.wants_copy for record in lifecycle.records.values())
