"""Prepares the source's log, so that it holds all changes that the tables of an attempt need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replicator_runtime.engine.preparation.chosen_start import begin
from replicator_runtime.engine.run_state.error_policy import belongs_to_table
from replicator_runtime.engine.run_state.plugin_contexts import SourceContext
from replicator_sdk import EventEmitter
from replicator_sdk.errors import BugError, NeedsUserError

if TYPE_CHECKING:
    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_sdk import ChangeBatch, Commits, DDLEvent, DMLEvent, EventReader, EventReaderDefinition


def prepare_log(lifecycle: TableLifecycle, definition: EventReaderDefinition, records: list[TableRecord]) -> None:
    """Make the log available and let it hold all tables' changes, before any snapshot is opened.

    Raises:
        ReplicatorError: Of the source; a table that cannot be captured stops alone with `onTableError` "isolate".
    """
    run = lifecycle.run
    reader = run.pipeline.source.create_reader(definition, SourceContext(run), NoEmitter())
    try:
        if run.saved_offset is None:
            run.save_offset(begin(lifecycle, reader, definition, records), 0)
        else:
            reader.initialize(run.saved_offset)
        _capture(lifecycle, reader, records)
    finally:
        reader.close()


def _capture(lifecycle: TableLifecycle, reader: EventReader, records: list[TableRecord]) -> None:
    """Capture all tables; one that cannot be captured stops alone with `onTableError` "isolate"."""
    if not records:
        return  # all have stopped
    try:
        reader.capture([r.schema for r in records])
    except NeedsUserError as error:
        bad = [r for r in records if str(r.table) == error.table]
        if len(records) < 2 or lifecycle.run.config.on_table_error != "isolate":
            raise
        if bad and belongs_to_table(error, bad[0].table, isolate=True):
            lifecycle.stop(bad[0], error)
            _capture(lifecycle, reader, [r for r in records if r is not bad[0]])
        elif not bad:
            _capture_each(lifecycle, reader, records, error)
        else:
            raise


def _capture_each(
    lifecycle: TableLifecycle, reader: EventReader, records: list[TableRecord], whole: NeedsUserError
) -> None:
    """Capture table by table, since no table was named; `whole` concerns all when none can be captured."""
    failures: list[tuple[TableRecord, NeedsUserError]] = []
    for record in records:
        try:
            reader.capture([record.schema])
        except NeedsUserError as error:
            failures.append((record, error))
    if len(failures) == len(records):
        raise whole
    for record, failure in failures:
        if not belongs_to_table(failure, record.table, isolate=True):
            raise failure
        lifecycle.stop(record, failure)


class NoEmitter(EventEmitter):
    """The emitter of a reader that only prepares the log; refuses every event."""

    def emit(self, event: DDLEvent | DMLEvent) -> None:
        """Refuse it."""
        raise _early(event)

    def emit_batch(self, batch: ChangeBatch) -> None:
        """Refuse it."""
        raise _early(batch)

    def emit_commits(self, commits: Commits) -> None:
        """Refuse it."""
        raise _early(commits)


def _early(what: object) -> BugError:
    return BugError(f"a reader emitted a {type(what).__name__} before it ran", code="RPL-9009")
