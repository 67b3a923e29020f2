"""Follows edits of the pipeline's `tables`: what was copied under another selection is copied again, or refused.

A table that is not selected has no part in the saved offset: its changes meanwhile are in no replay. All that is decided
here is durable before an attempt moves that offset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import structlog

from replicator_runtime.config.selection import matched_by
from replicator_runtime.engine.preparation.scope_edits import needs_rows, why_copied_again
from replicator_runtime.engine.run_state.attempt_end import PlanOutOfDate
from replicator_runtime.engine.tables.table_scope import TableScope
from replicator_sdk.errors import NeedsUserError
from replicator_state import ArchiveFolder

if TYPE_CHECKING:
    from collections.abc import Callable

    from replicator_runtime.config import SelectedTable
    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_sdk import Offset, TableId, TableRegistry, TableSchema

log = structlog.get_logger()

_OWN_FOLDER = "_replicator"


class SelectionEdits:
    """What the selection of this run is to the tables of earlier ones. Used by the engine's main thread, once an attempt.

    Args:
        lifecycle: Of all tables; it is loaded.
    """

    def __init__(self, lifecycle: TableLifecycle) -> None:
        self._lifecycle = lifecycle
        self._run = lifecycle.run
        self._copies = lifecycle.takes_snapshots
        self._table_store = self._run.table_store
        self._before = self._table_store.selection
        self._changed = False
        self._first = not self._table_store.records

    def leave(self) -> None:
        """Forget what is known of tables that are not selected any more; durable when this returns."""
        for record in self._table_store.records.values():
            if self._run.pipeline.selection.matches(record.table) is not None:
                continue
            if self._copies and record.schemas:
                log.warning(
                    "table.not_selected", table=str(record.table), later="it is copied again when it is selected"
                )
                record.pause = None
                self._lifecycle.start_over(record)
                self._changed = True
            elif not self._copies and record.left_at is None and not record.passed_over:
                record.left_at = self._run.saved_offset
                if record.pause is not None and record.pause.base is not None:
                    record.left_at = record.pause.base.offset  # what follows is in the log, and was not read for it
                    record.left_late = record.left_at != self._run.saved_offset
                record.pause = None
                self._changed |= record.left_at is not None
        if self._changed:
            self._table_store.save()

    def takes_in(self, table: TableId) -> bool:
        """Whether a selected table that the table store does not have is to be taken in."""
        by_pattern = self._first or self._run.config.new_tables == "include"
        return by_pattern or self._run.pipeline.selection.names(table) or self._is_newly_selected(table)

    def join(self, record: TableRecord, registry: TableRegistry) -> None:
        """See whether a selected table's changes were passed over while it was not selected.

        Raises:
            NeedsUserError: When they were, and the source takes no snapshots.
        """
        if self._copies:
            return
        offset, is_new = self._run.saved_offset, not record.schemas and record.left_at is None
        gap = record.left_at is not None and not record.goes_on_at(offset)
        if is_new:
            gap = self._is_newly_selected(record.table) or (self._before or {}).get("newTables") == "ignore"
        if gap and offset is not None and not _is_ahead(registry, record, offset):
            record.passed_over = self._changed = True
        if record.left_at is not None:
            record.left_at, record.left_late, self._changed = None, False, True
        if record.passed_over:
            raise NeedsUserError(
                "changes of the table in the log were passed: it was not selected then, or the log lost them before they were"
                " read; and this source takes no snapshots",
                code="RPL-2005",
                table=str(record.table),
                hint="take it out of `tables` (by `exclude`) and replicate it by a pipeline of its own, with another `name` and target"
                " folder, which reads the log from its start; if the log lost changes, have its connector snapshot the table first",
            )

    def follow(self, record: TableRecord, selected: SelectedTable, described: Callable[[], TableSchema]) -> None:
        """See whether other columns or operations of a known table are selected than were.

        Args:
            record: The table; its schemas are known.
            selected: The selection of this run.
            described: Describes the table as it is selected now.

        Raises:
            NeedsUserError: When the target cannot follow; what is known of the table stays as it is.
            PlanOutOfDate: When a whole copy would be replaced of which the plan says nothing: the source was altered since.
        """
        why, now = why_copied_again(record, selected, described, copies=self._copies), TableScope.of(selected)
        if why and record.was_begun and self._run.config.snapshot.mode == "never":
            raise needs_rows(record.table)
        if why:
            accepted, is_whole = self._run.accepted_copies, not (record.needs_snapshot or record.wants_copy)
            if accepted is not None and record.table not in accepted and is_whole:
                raise PlanOutOfDate
            log.warning("table.copied_again", table=str(record.table), why=why)
            self._lifecycle.start_over(record, beside=True)
            self._changed = True
        elif record.scope != now:
            record.scope, self._changed = now, True

    def save(self) -> None:
        """Record the selection of this run, and what was decided; durable when it returns."""
        config = self._run.config
        entries = self._run.pipeline.selection.to_json()
        now: dict[str, Any] = {"entries": entries, "newTables": config.new_tables, "mode": config.snapshot.mode}
        if config.snapshot.from_ is not None:
            now["from"] = str(config.snapshot.from_.start)
        if config.archive is not None:
            now["archive"] = ArchiveFolder(config.archive.path, 0).place
        if self._changed or now != self._table_store.selection:
            self._changed = False
            self._table_store.selection = now
            self._table_store.save()

    def _is_newly_selected(self, table: TableId) -> bool:
        return self._before is not None and not matched_by(self._before["entries"], table)


def _is_ahead(registry: TableRegistry, record: TableRecord, offset: Offset) -> bool:
    """Whether nothing of the table was passed, as the source says; tables of the replicator's own are in no log."""
    return record.table.folder == _OWN_FOLDER or registry.is_ahead(record.table, offset)
