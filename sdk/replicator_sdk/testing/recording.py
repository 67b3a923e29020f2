"""Runs a reader in a thread, keeps what it emits, and lays it out change by change."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from replicator_sdk.batch import ChangeBatch
from replicator_sdk.event import DDLEvent, DDLOperation, DMLEvent
from replicator_sdk.offset import Offset
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.source import DeltaSource, EventReaderDefinition, ReaderClosed
from replicator_sdk.testing.contexts import CollectingEmitter, TestSourceContext, Window
from replicator_sdk.testing.histories.batches import from_batch
from replicator_sdk.testing.histories.reference import Change, Reference, RowChange
from replicator_sdk.testing.histories.values import comparable_row

Schemas = Mapping[TableId, TableSchema]


@dataclass(frozen=True)
class Logged:
    """One change as it was emitted.

    Attributes:
        change: What happened.
        offset: The offset after its transaction.
        position: The offset before its window, and its ordinal there.
    """

    change: Change
    offset: Offset
    ordinal: int


@dataclass(frozen=True)
class PlacedDDL:
    """A DDL event and its place.

    Attributes:
        event: What must be the same when it is emitted again.
        base: The last offset emitted before it.
        ordinal: Its rank after `base`.
        end: The offset after its transaction.
    """

    event: tuple[Any, ...]
    base: Offset
    ordinal: int
    end: Offset

    def __str__(self) -> str:
        return f"{self.event[0]} of {self.event[1]} at ({self.base}, {self.ordinal}), committed at {self.end}"


class Recording:
    """A reader at work.

    Attributes:
        start: The offset it began after.
        emitter: What it emitted.
        context: Its context.
    """

    def __init__(
        self,
        source: DeltaSource,
        schemas: Schemas,
        offset: Offset | None,
        *,
        capture: Sequence[TableSchema] | None = None,
        narrowed: bool = False,
        state: dict[str, bytes] | None = None,
        name: str = "conformance",
    ) -> None:
        self.schemas = dict(schemas)
        self.context = TestSourceContext(name, state=state)
        self.context.committed = offset
        self.emitter = CollectingEmitter()
        self.error: BaseException | None = None
        self._source = source
        names = frozenset(self.schemas) if narrowed else frozenset()
        definition = EventReaderDefinition(self.schemas, narrowed=names)
        self._reader = source.create_reader(definition, self.context, self.emitter)
        try:
            self.start = self._reader.initialize(offset)
            self._reader.capture(list(schemas.values()) if capture is None else capture)
        except BaseException:
            self._reader.close()
            raise
        self._thread = threading.Thread(target=self._run, name="conformance-reader", daemon=True)

    def run(self) -> None:
        """Let the reader read."""
        self._thread.start()

    def catch_up(self, seconds: float) -> list[Logged]:
        """Wait until everything committed by now is emitted; returns all changes so far.

        Raises:
            AssertionError: When that takes longer than `seconds`; the reader's own error when it failed.
        """
        latest = self._source.latest_offset()
        reached = not self.start < latest or self.emitter.wait_for(latest, seconds, self._thread.is_alive)
        if self.error is not None:
            raise self.error
        assert reached, f"{latest} was not reached within {seconds} s; the reader is at {self.emitter.last_offset}"
        return self.logged()

    def logged(self) -> list[Logged]:
        """All changes of ended windows, in log order."""
        return list(lay_out(self.emitter.closed_windows, self.schemas))

    def marks(self) -> list[Offset]:
        """The start and every offset emitted so far, in order; also those without changes."""
        windows = [w.commits for w in self.emitter.closed_windows if w.commits is not None]
        return [self.start, *(commits.offset_at(i) for commits in windows for i in range(len(commits)))]

    def placed(self) -> list[PlacedDDL]:
        """All DDL events of ended windows with their places, in log order."""
        found, base = [], self.start
        for window in self.emitter.closed_windows:
            assert window.commits is not None
            events = [entry for entry in lay_out([window], self.schemas) if isinstance(entry.change, DDLEvent)]
            found += [PlacedDDL(signature(entry), base, entry.ordinal, entry.offset) for entry in events]
            base = window.commits.last
        return found

    def close(self, seconds: float = 60.0) -> None:
        """Stop the reader.

        Raises:
            AssertionError: When `run` has not returned after `seconds`.
        """
        self._reader.close()
        self.emitter.close()
        if self._thread.ident is not None:
            self._thread.join(seconds)
            assert not self._thread.is_alive(), f"the reader runs on {seconds} s after close"

    def _run(self) -> None:
        try:
            self._reader.run()
        except ReaderClosed:
            pass
        except BaseException as error:  # noqa: BLE001 - raised again in the test's thread
            self.error = error


@contextmanager
def recording(
    source: DeltaSource,
    schemas: Schemas,
    offset: Offset | None,
    *,
    capture: Sequence[TableSchema] | None = None,
    narrowed: bool = False,
    state: dict[str, bytes] | None = None,
    name: str = "conformance",
) -> Iterator[Recording]:
    """A reader from `offset` on that is closed afterwards; call `run` to let it read.

    Args:
        source: What to read.
        schemas: The tables' schemas as of `offset`.
        offset: Where to begin; None at the first start.
        capture: Tables to capture, when others than those of `schemas`.
        narrowed: Whether `schemas` select columns by name.
        state: What the source's plugin kept in earlier runs; it may be newer than `offset`, as after a crash.
        name: The replicator's.
    """
    made = Recording(source, schemas, offset, capture=capture, narrowed=narrowed, state=state, name=name)
    try:
        yield made
    finally:
        made.close()


def lay_out(windows: Iterable[Window], schemas: Schemas) -> Iterator[Logged]:
    """The changes of windows in log order.

    Args:
        windows: Ended windows.
        schemas: Schemas of tables whose changes come one by one (`DMLEvent`), as of the first window.
    """
    current = dict(schemas)
    for window in windows:
        assert window.commits is not None
        ends = [int(end) for end in window.commits.ordinals]
        for ordinal, change in sorted(_changes(window, current), key=lambda pair: pair[0]):
            index = next(i for i, end in enumerate(ends) if end > ordinal)
            yield Logged(change, window.commits.offset_at(index), ordinal)


def _changes(window: Window, current: dict[TableId, TableSchema]) -> Iterator[tuple[int, Change]]:
    for event, ordinals in zip(window.events, window.ordinals, strict=True):
        if isinstance(event, ChangeBatch):
            yield from zip(ordinals, from_batch(event), strict=True)
        elif isinstance(event, DDLEvent):
            if event.schema is not None:
                current[event.table] = event.schema
            yield ordinals[0], event
        elif event.table is not None:
            yield ordinals[0], _plain(event, current[event.table])


def _plain(event: DMLEvent, schema: TableSchema) -> RowChange:
    row = {name: value for name, value in event.row.items() if name not in event.unchanged}
    full = event.before is not None and set(event.before) == set(schema.names)
    return RowChange(schema, event.operation, row, event.before, event.unchanged, full)


def interpret(schemas: Schemas, logged: Iterable[Logged], *, overlap: bool = False) -> Reference:
    """What `logged` makes of empty tables."""
    reference = Reference()
    for schema in schemas.values():
        reference.create(schema)
    for entry in logged:
        reference.apply(entry.change, overlap=overlap)
    return reference


def schemas_at(schemas: Schemas, logged: Iterable[Logged], offset: Offset) -> dict[TableId, TableSchema]:
    """The schemas after everything up to `offset`."""
    current = dict(schemas)
    for changes in together([entry.change for entry in logged if not offset < entry.offset]):
        events = [change for change in changes if isinstance(change, DDLEvent)]
        for event in events:
            if event.operation is DDLOperation.DROP_TABLE or event.schema is not None or is_rename(event):
                current.pop(event.prev_table or event.table, None)
        for event in events:
            if event.operation is not DDLOperation.DROP_TABLE and event.schema is not None:
                current[event.table] = event.schema
    return current


def is_rename(change: Change) -> bool:
    """Whether a table has another name after it."""
    return isinstance(change, DDLEvent) and change.operation is DDLOperation.RENAME_TABLE


def together(changes: Iterable[Change]) -> list[list[Change]]:
    """The changes one by one, but that RENAME_TABLEs with nothing between them are one: of tables that may exchange their names."""
    found: list[list[Change]] = []
    for change in changes:
        if found and is_rename(change) and is_rename(found[-1][-1]):
            found[-1].append(change)
        else:
            found.append([change])
    return found


def signature(entry: Logged) -> tuple[Any, ...]:
    """What must be the same when the same change is emitted again."""
    change = entry.change
    if isinstance(change, DDLEvent):
        schema = None if change.schema is None else change.schema.fingerprint
        return (change.operation.value, str(change.table), schema, change.alters, change.needs_snapshot)
    before = None if change.before is None else comparable_row(change.schema, change.before)
    row = comparable_row(change.schema, change.row)
    return (change.operation.name, change.schema.fingerprint, row, before, tuple(sorted(change.unchanged)))
