"""Reads the changelog and emits it, a window of columns at a time."""
# ruff: noqa: S608 - only numbered columns are put into statements

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk import (
    ChangeBatch,
    Commits,
    DeltaSourceContext,
    DMLOperation,
    EventEmitter,
    EventReader,
    EventReaderDefinition,
    Offset,
    TableId,
    TableSchema,
)
from replicator_sdk.batch import Int64s
from replicator_sdk.errors import BugError
from replicator_source_sqlite.capture.changelog import DDL, check_reach, install, offset_of
from replicator_source_sqlite.capture.chosen_start import tables_at
from replicator_source_sqlite.capture.ddl_detection import schema_version, synchronise
from replicator_source_sqlite.capture.pruning import prune
from replicator_source_sqlite.capture.readers import (
    claim_reader,
    forget_other_generations,
    longest_hours,
    remember_hours,
    remember_reader,
)
from replicator_source_sqlite.capture.versions import (
    Version,
    add_version,
    forget_unneeded,
    live_versions,
    refresh_versions,
)
from replicator_source_sqlite.catalogue import describe
from replicator_source_sqlite.config import SqliteConfig
from replicator_source_sqlite.connection import check_file, connect, file_identity, transaction
from replicator_source_sqlite.offset import SqliteOffset
from replicator_source_sqlite.streaming.ddl_events import DDLEvents
from replicator_source_sqlite.streaming.selection import Selection
from replicator_source_sqlite.types.decode import Decoder

_PRUNE_ROWS = 5_000
_PRUNE_SECONDS = 2.0
_PRUNE_OLD_SECONDS = 60.0

Head = tuple[int, int, int, int]
"""Number, version, operation and time of a change."""


class SqliteReader(EventReader):
    """Polls the changelog.

    SQLite does not number its transactions, so every change counts as a transaction, and a replay can start after any
    change. Changes found together are emitted in one window, which the runtime never splits.
    """

    def __init__(
        self,
        config: SqliteConfig,
        definition: EventReaderDefinition,
        context: DeltaSourceContext,
        emitter: EventEmitter,
    ) -> None:
        self._config = config
        self._policy = config.out_of_range or definition.out_of_range
        self._marks_refused = definition.marks_refused
        self._definition = definition
        self._context = context
        self._emitter = emitter
        self._closed = threading.Event()
        self._name = f"{context.namespace}/{context.replicator_name}/{context.generation}"
        self._position = self._at = 0
        self._ordinal = 0
        self._emitted: list[Int64s] = []
        self._late = 0
        self._together = False
        self._known_schema = -1
        self._versions: dict[int, Version] = {}
        self._selection = Selection({})
        self._ddl_events = DDLEvents(self._versions, self._selection, self._policy)
        self._pruned = (0, 0.0)

    def initialize(self, offset: Offset | None) -> Offset:
        """Prepare the log; from now on no change is lost, and none is pruned that this reader has not read."""
        with connect(self._config.path) as database:
            install(database)
            claim_reader(database, self._context, is_first_start=offset is None)
            if offset is None:
                _, last = synchronise(database, 0)
                offset = offset_of(database, last)
            if not isinstance(offset, SqliteOffset):
                raise BugError(f"{offset!r} is not an offset of SQLite", code="RPL-3509")
            check_reach(database, offset)
            self._begin(database, offset)
            return offset

    def begin_at(self, offset: Offset, tables: Sequence[TableSchema]) -> Mapping[TableId, TableSchema]:
        """Prepare to read after `offset`; the log has the tables' columns there, or the start is refused before this reader is noted."""
        assert isinstance(offset, SqliteOffset)
        with connect(self._config.path) as database:
            synchronise(database, 0)
            found = tables_at(database, offset, tables, self._definition.narrowed)
            claim_reader(database, self._context, is_first_start=True)
            self._begin(database, offset)
            check_reach(database, offset)  # another reader may have removed changes until this one was noted
            return found

    def _begin(self, database: sqlite3.Connection, offset: SqliteOffset) -> None:
        remember_hours(database, self._name, self._config.keep_changes_hours)
        remember_reader(database, self._name, offset.change)
        forget_other_generations(database, self._name)
        forget_unneeded(database)
        self._position, self._at = offset.change, offset.at

    def capture(self, tables: Sequence[TableSchema]) -> None:
        """Create the triggers of tables that have none yet, all in one short transaction."""
        with connect(self._config.path) as database:
            install(database)
            while not self._captured(database, tables):
                pass

    def _captured(self, database: sqlite3.Connection, tables: Sequence[TableSchema]) -> bool:
        """Capture the tables; False when some table was changed just before, and one may have another's name by now."""
        known, _ = synchronise(database, self._position)
        with transaction(database, write=True):
            if schema_version(database) != known:
                return False
            captured = {v.schema.table for v in live_versions(database)}
            for schema in tables:
                if schema.table not in captured:
                    add_version(database, describe(database, schema.table))
        return True

    def run(self) -> None:
        """Emit committed changes, then wait for the poll interval, until closed."""
        file = file_identity(self._config.path)
        with connect(self._config.path) as database:
            refresh_versions(database, self._versions)
            self._selection = Selection.of(self._definition)
            self._ddl_events = DDLEvents(self._versions, self._selection, self._policy)
            while not self._closed.is_set():
                check_file(self._config.path, file)
                upper = self._observe(database)
                if upper > self._position:
                    self._emit_until(database, upper)
                self._context.set_ok()
                self._prune(database)
                self._closed.wait(self._config.poll_interval_seconds)

    def close(self) -> None:
        """Make `run` return after its current window."""
        self._closed.set()

    def _observe(self, database: sqlite3.Connection) -> int:
        """The last committed change, at a moment when all triggers match their tables.

        Raises:
            HistoryLostError: When the database was restored while it was read.
        """
        with transaction(database):
            check_reach(database, SqliteOffset(self._position, self._at))
            now = schema_version(database)
            (last,) = database.execute("SELECT coalesce(max(id), 0) FROM _replicator_changes").fetchone()
        if now != self._known_schema:
            self._known_schema, last = synchronise(database, self._position)
            refresh_versions(database, self._versions)
        return int(last)

    def _emit_until(self, database: sqlite3.Connection, upper: int) -> None:
        """Emit all changes up to `upper`, which ends a transaction; a schema change begins one (`ddl_detection`)."""
        last = self._position
        self._emit_late_alters()
        while last < upper and not self._closed.is_set():
            heads = database.execute(
                "SELECT id, version, op, at FROM _replicator_changes WHERE id > ? AND id <= ? ORDER BY id LIMIT ?",
                (last, upper, self._config.batch_rows),
            ).fetchall()
            if not heads:
                break
            for is_ddl, run in groupby(heads, lambda head: head[2] == DDL):
                part = list(run)
                if is_ddl:
                    for head in part:
                        last = self._pass_ddl(database, head, last)
                else:
                    self._emit_changes(database, part)
                    last = self._passed(part)
        if last == upper or not self._closed.is_set():
            self._commit(upper)

    def _pass_ddl(self, database: sqlite3.Connection, head: Head, last: int) -> int:
        """Emit a schema change as a transaction of its own, or of one with those that were made together with it."""
        if not self._together:
            self._commit(last)
        self._together = self._emit_ddl(database, head)
        if self._together:
            self._late += 1
            return head[0]
        return self._passed([head])

    def _passed(self, heads: Sequence[Head]) -> int:
        """Record number and time of what was emitted; returns the last number."""
        self._emitted.append(np.array([(head[0], head[3]) for head in heads], np.int64))
        return heads[-1][0]

    def _commit(self, last: int) -> None:
        """End the window at `last`, which may be after the last change that still exists."""
        if last <= self._position:
            return
        if not self._emitted or self._emitted[-1][-1, 0] < last:
            self._emitted.append(np.array([(last, -1)], np.int64))
        ends = np.concatenate(self._emitted)
        ordinals = np.minimum(np.arange(1, len(ends) + 1) + self._late, self._ordinal)
        commits = Commits(ordinals, ends[:, 1], lambda i: SqliteOffset(int(ends[i, 0]), max(0, int(ends[i, 1]))))
        self._emitter.emit_commits(commits)
        self._position, self._at = last, max(0, int(ends[-1, 1]))
        self._ordinal, self._late, self._emitted = 0, 0, []

    def _emit_late_alters(self) -> None:
        """Emit schema changes of tables whose schema at the runtime is older than the log's; before the window's changes."""
        for event in self._ddl_events.late_alters(self._definition.tables, self._position):
            self._emitter.emit(replace(event, offset=SqliteOffset(self._position), ordinal=self._ordinal))
            self._ordinal += 1
            self._late += 1
        self._definition = replace(self._definition, tables={})

    def _emit_changes(self, database: sqlite3.Connection, heads: Sequence[Head]) -> None:
        numbers = np.array([head[0] for head in heads], np.int64)
        for version in sorted({head[1] for head in heads}):
            if schema := self._selection.schema(self._versions[version]):
                of_version = np.array([head[1] == version for head in heads])
                ordinals = self._ordinal + np.flatnonzero(of_version).astype(np.int64)
                self._emitter.emit_batch(
                    self._batch(
                        database, self._versions[version], schema, (int(numbers[0]), int(numbers[-1])), ordinals
                    )
                )
        self._ordinal += len(heads)

    def _batch(
        self,
        database: sqlite3.Connection,
        version: Version,
        schema: TableSchema,
        between: tuple[int, int],
        ordinals: Int64s,
    ) -> ChangeBatch:
        """The changes of one version with numbers in `between`, with the selected columns."""
        width = len(version.schema.columns)
        places = [i for i, column in enumerate(version.schema.columns) if column.name in schema]
        values = "".join(f", c{i}" for i in (*places, *(p + width for p in places)))
        rows = database.execute(
            f"SELECT op{values} FROM _replicator_changes WHERE id BETWEEN ? AND ? AND version = ? ORDER BY id",
            (*between, version.number),
        ).fetchall()
        op, *columns = zip(*rows, strict=True)
        decoder = Decoder(schema, self._policy)
        marked = decoder.marked_struct if self._marks_refused else lambda *some: (decoder.struct(*some), {})
        row, refused = marked(columns[: len(places)], len(rows))
        before, _ = marked(columns[len(places) :], len(rows))
        if decoder.replaced:
            self._context.metrics.count("values.out_of_range", decoder.replaced.total(), table=schema.table)
        codes = pa.array(op, pa.int8())
        needed = _needed(codes, row, before, schema)
        return ChangeBatch(schema, codes, row, needed, ordinals, before_is_full=True, refused=refused)

    def _emit_ddl(self, database: sqlite3.Connection, head: Head) -> bool:
        """Emit a schema change; returns whether the next change was made together with it."""
        position = SqliteOffset(self._position)
        event, together = self._ddl_events.event(database, head[0], position, self._ordinal)
        self._ordinal += 1
        if event is not None:
            self._emitter.emit(event)
        return together

    def _prune(self, database: sqlite3.Connection) -> None:
        """From time to time, remove changes that are durable at the target from the changelog."""
        committed = self._context.committed_offset()
        change, since = self._pruned
        if time.monotonic() - since < _PRUNE_SECONDS or not isinstance(committed, SqliteOffset):
            return
        if committed.change > change:
            remember_reader(database, self._name, committed.change)
        elif time.monotonic() - since < _PRUNE_OLD_SECONDS:
            return
        self._pruned = (committed.change, time.monotonic())
        keep = longest_hours(database)
        until = int((time.time() - 3600 * keep) * 1_000_000) if keep else None
        while prune(database, _PRUNE_ROWS, until) == _PRUNE_ROWS and not self._closed.wait(0.05):
            pass


def _needed(op: pa.Array, row: pa.StructArray, before: pa.StructArray, schema: TableSchema) -> pa.StructArray | None:
    """The rows before, where they are needed: for deletes, and for updates that changed the key (or of tables without one)."""
    wanted = pc.equal(op, int(DMLOperation.DELETE))
    update = pc.equal(op, int(DMLOperation.UPDATE))
    if schema.primary_key:
        names = [column.name for column in schema.columns]
        for name in schema.primary_key:
            place = names.index(name)
            moved = pc.fill_null(pc.not_equal(row.field(place), before.field(place)), False)
            wanted = pc.or_(wanted, pc.and_(update, moved))
    else:
        wanted = pc.or_(wanted, update)
    if not pc.any(wanted).as_py():
        return None
    return pa.StructArray.from_arrays(
        [before.field(i) for i in range(before.type.num_fields)], fields=list(before.type), mask=pc.invert(wanted)
    )
