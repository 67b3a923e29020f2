"""Emits what the archive has, entry by entry."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from replicator_sdk import DDLEvent, DDLOperation, EventReader, single_commit
from replicator_sdk.change_archive.rows import changes_of_rows
from replicator_sdk.errors import BugError, TableHistoryLostError
from replicator_source_archive.captured_tables import CapturedTables
from replicator_source_archive.catalogue import incomplete
from replicator_source_archive.chosen_start import ChosenStart
from replicator_source_archive.config import ArchiveConfig, Incomplete
from replicator_source_archive.folder import UnusableFileError
from replicator_source_archive.manifests import damaged
from replicator_source_archive.offset import ArchiveOffset

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from replicator_sdk import (
        DeltaSourceContext,
        EventEmitter,
        EventReaderDefinition,
        Offset,
        TableId,
        TableSchema,
    )
    from replicator_source_archive.manifests import Entry, Manifests

_CHECK_SECONDS: Final = 30.0


class ArchiveReader(EventReader):
    """Reads manifests by their number, and waits for the next one.

    Every entry is a window with one commit, and counts as many events whether its table is selected or not, so that a replay
    from any offset gives the same positions. Changes of structure are entries of their own.
    """

    def __init__(
        self,
        manifests: Manifests,
        config: ArchiveConfig,
        definition: EventReaderDefinition,
        context: DeltaSourceContext,
        emitter: EventEmitter,
    ) -> None:
        self._manifests = manifests
        self._config = config
        self._definition = definition
        self._context = context
        self._emitter = emitter
        self._closed = threading.Event()
        self._next = ArchiveOffset(1)
        self._tables = CapturedTables(definition)
        self._check_at = 0.0

    def initialize(self, offset: Offset | None) -> Offset:
        """Check that what follows `offset` is there; the first start is after the last manifest."""
        self._manifests.owner()
        if offset is None:
            offset = self._manifests.end()
        if not isinstance(offset, ArchiveOffset):
            raise BugError(f"{offset!r} is not an offset of an archive", code="RPL-3558")
        self._manifests.check_reach(offset)
        self._next = offset
        if self._config.incomplete is Incomplete.FAIL:
            known = self._manifests.states(offset).tables
            self._tables.waiting = {table for table, state in known.items() if state.is_broken}
        return offset

    def begin_at(self, offset: Offset, tables: Sequence[TableSchema]) -> Mapping[TableId, TableSchema]:
        """The tables as the archive has them at `offset`; see `EventReader.begin_at`."""
        assert isinstance(offset, ArchiveOffset)
        start = ChosenStart(self._manifests)
        found = start.tables_at(offset, tables, self._definition.narrowed, self._config.incomplete)
        self.initialize(offset)
        return found

    def capture(self, tables: Sequence[TableSchema]) -> None:
        """The archive has all tables that its pipeline has."""

    def run(self) -> None:
        """Emit entries, then wait for the next manifest, until closed."""
        while not self._closed.is_set():
            found = self._manifests.entries(self._next.manifest)
            if found is None:
                self._check_reach_now_and_then()
                self._context.set_ok()
                self._closed.wait(self._config.poll_interval_seconds)
                continue
            entries, after = found
            for entry in entries[self._next.entry :]:
                if self._closed.is_set():
                    return
                self._pass(entry)
            if not entries:
                self._emitter.emit_commits(single_commit(0, after))
            self._next = after

    def close(self) -> None:
        """Make `run` return after its current batch."""
        self._closed.set()

    def _check_reach_now_and_then(self) -> None:
        """Listing the manifests costs an object store many requests where there are many."""
        if time.monotonic() >= self._check_at:
            self._manifests.check_reach(self._next)
            self._manifests.check_next(self._next.manifest)
            self._check_at = time.monotonic() + _CHECK_SECONDS

    def _pass(self, entry: Entry) -> None:
        """Emit an entry, where its table is wanted, and its commit."""
        table, events = entry.table, 1
        if entry.kind == "changes":
            events = entry.facts["rows"]
        if entry.kind == "rename":
            events = len(entry.renames)
            self._emit_renames(entry)
        elif table in self._tables:
            self._emit(table, entry)
        stamp = entry.facts.get("committedAt", -1)
        # Entries of different tables are in no common order of commits.
        self._emitter.emit_commits(single_commit(events, entry.end, stamp, valid_through=-1))
        self._next = entry.end

    def _emit(self, table: TableId, entry: Entry) -> None:
        if entry.kind == "break":
            self._pass_break(table, entry)
        elif entry.kind == "copy":
            self._emit_copy(table, entry)
        elif table in self._tables.waiting:
            self._tables.note_schema(table, entry)
        elif entry.kind == "changes" and self._is_reached(table, entry):
            # its files are not read; changes of structure are emitted, as their positions are compared
            self._tables.note_schema(table, entry)
        elif entry.kind == "changes":
            self._emit_changes(table, entry)
        elif entry.kind == "end":
            self._emitter.emit(DDLEvent(entry.start, DDLOperation.DROP_TABLE, table))
        else:
            self._emit_ddl(table, entry)

    def _is_reached(self, table: TableId, entry: Entry) -> bool:
        """Whether the target has the entry."""
        reached = self._definition.reached(table)
        return reached is not None and not reached < entry.end

    def _emit_renames(self, entry: Entry) -> None:
        """Emit a RENAME_TABLE for each wanted table; their ordinals do not depend on which are."""
        ordinals = {former: ordinal for ordinal, former in enumerate(entry.renames)}
        for former, schema in self._tables.rename(entry).items():
            event = DDLEvent(entry.start, DDLOperation.RENAME_TABLE, schema.table, schema, former)
            self._emitter.emit(replace(event, ordinal=ordinals[former]))

    def _emit_changes(self, table: TableId, entry: Entry) -> None:
        """Emit the changes of an entry, some ten thousand at once."""
        assert entry.schema is not None
        schema = self._tables.selected(table, entry.schema)
        overlap = entry.facts["overlap"] or self._config.incomplete is Incomplete.CHANGES
        ordinal, folder = 0, self._manifests.folder
        for name in entry.facts["files"]:
            try:
                for rows in folder.batches(name):
                    batch = changes_of_rows(schema, rows, ordinal, overlap=overlap)
                    self._emitter.emit_batch(replace(batch, is_unordered=entry.facts["unordered"]))
                    ordinal += len(batch)
            except UnusableFileError as error:
                if error.is_missing:
                    self._manifests.check_reach(entry.start)  # deleted after `keepDays`
                raise damaged(folder, name, table, entry.start) from None
        if ordinal != entry.facts["rows"]:
            raise damaged(folder, ", ".join(entry.facts["files"]), table, entry.start)
        self._tables.learn(table, schema)

    def _emit_ddl(self, table: TableId, entry: Entry) -> None:
        """Emit a change of structure; the DROP_TABLE of a table is that of its `end`."""
        event = entry.event()
        if event.operation is DDLOperation.DROP_TABLE:
            return
        if event.schema is not None and (seen := self._tables.narrowed_steps(table, event.schema, event.alters)):
            event = replace(event, schema=seen[0], alters=seen[1])
        self._tables.note_schema(table, entry)
        if event.alters or event.operation is not DDLOperation.ALTER_TABLE:
            self._emitter.emit(event)

    def _emit_copy(self, table: TableId, entry: Entry) -> None:
        """The table's rows were read again: the log has them in no other form, so it is copied here, too."""
        assert entry.schema is not None
        schema = self._tables.selected(table, entry.schema)
        steps = self._tables.steps_after_copy(table, schema)
        self._tables.waiting.discard(table)
        self._emitter.emit(
            DDLEvent(entry.start, DDLOperation.ALTER_TABLE, table, schema, alters=steps, needs_snapshot=True)
        )

    def _pass_break(self, table: TableId, entry: Entry) -> None:
        """What follows is of no use until the table was copied again. Where no copy is there yet, the table stops."""
        if self._config.incomplete is Incomplete.CHANGES or self._is_reached(table, entry):
            return
        self._tables.waiting.add(table)
        if waits_for_copy(self._manifests.history(since=entry.end), table):
            error = incomplete(table, entry.facts["why"])
            raise TableHistoryLostError(
                error.message, code="RPL-3556", hint=error.hint, table=str(table), position=str(entry.start)
            )


def waits_for_copy(entries: Iterable[Entry], table: TableId) -> bool:
    """Whether a table is in all these entries without a copy, under whatever name."""
    name = table
    for entry in entries:
        if entry.kind in {"copy", "end"} and entry.table == name:
            return False
        if (renamed := entry.renames.get(name)) is not None:
            name = renamed.table
    return True
