"""A memory source whose offsets have places between transactions, where heartbeats and snapshots are.

The log's transaction n ends at 3n. Idle, the reader emits 3n + 1; snapshots are exact there as well. Where a transaction
begins, at 3n + 2, is determined by the log alone.
"""

from __future__ import annotations

from typing import Any, cast

import pytest

from replicator_sdk import ChangeBatch, Commits, DDLEvent, DMLEvent, EventEmitter, Offset, single_commit
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from replicator_sdk.testing.in_memory.source import MemoryReader, MemorySnapshotReader, MemorySource


def _place(offset: Offset, extra: int = 0) -> MemoryOffset:
    return MemoryOffset(cast("MemoryOffset", offset).transaction * 3 + extra)


class SpreadEmitter(EventEmitter):
    """Spreads offsets, emits heartbeats, and marks the begin of a transaction that holds a DDL event where asked to."""

    def __init__(self, emitter: EventEmitter, *, begins: bool) -> None:
        self._emitter = emitter
        self._begins = begins
        self._marked: Offset | None = None

    def emit(self, event: DDLEvent | DMLEvent) -> None:
        self._emitter.emit(event)

    def emit_batch(self, batch: ChangeBatch) -> None:
        self._emitter.emit_batch(batch)

    def begin(self, position: int, transactions: Any) -> None:
        mark = MemoryOffset(position * 3 + 2)
        if self._begins and mark != self._marked and any(isinstance(c, DDLEvent) for t in transactions for c in t):
            self._emitter.emit_commits(single_commit(0, mark))

    def emit_commits(self, commits: Commits) -> None:
        self._emitter.emit_commits(
            Commits(commits.ordinals, commits.timestamps, lambda i: _place(commits.offset_at(i)))
        )
        self._marked = _place(commits.last)

    def heartbeat(self, position: int) -> None:
        mark = MemoryOffset(position * 3 + 1)
        if self._marked is None or self._marked < mark:
            self._emitter.emit_commits(single_commit(0, mark))
            self._marked = mark

    def start(self, offset: Offset) -> None:
        self._marked = offset


def spread_offsets(patch: pytest.MonkeyPatch, *, begins: bool, heartbeats: bool = True) -> None:
    """Make `MemorySource` such a source."""
    true_create, true_initialize = MemorySource.create_reader, MemoryReader.initialize
    true_emit, true_open, true_latest = MemoryReader._emit_window, MemorySnapshotReader.open, MemorySource.latest_offset

    def create(self: MemorySource, definition: Any, context: Any, emitter: EventEmitter) -> Any:
        return true_create(self, definition, context, SpreadEmitter(emitter, begins=begins))

    def initialize(self: MemoryReader, offset: MemoryOffset | None) -> Offset:
        found = true_initialize(self, None if offset is None else MemoryOffset(offset.transaction // 3))
        cast("SpreadEmitter", self._emitter).start(offset or _place(found))
        return offset or _place(found)

    def emit_window(self: MemoryReader, transactions: Any) -> None:
        cast("SpreadEmitter", self._emitter).begin(self._position, transactions)
        true_emit(self, transactions)

    def rest(self: MemoryReader) -> None:
        if heartbeats:
            cast("SpreadEmitter", self._emitter).heartbeat(self._position)

    def latest(self: MemorySource) -> Offset:
        return _place(true_latest(self))

    def open_(self: MemorySnapshotReader, schema: Any, chunks: Any = ()) -> Any:
        snapshot: Any = true_open(self, schema, chunks)
        snapshot.position = _place(snapshot.position, 1)
        return snapshot

    patch.setattr(MemorySource, "create_reader", create)
    patch.setattr(MemoryReader, "initialize", initialize)
    patch.setattr(MemoryReader, "_emit_window", emit_window)
    patch.setattr(MemoryReader, "_rest", rest)
    patch.setattr(MemorySource, "latest_offset", latest)
    patch.setattr(MemorySnapshotReader, "open", open_)
