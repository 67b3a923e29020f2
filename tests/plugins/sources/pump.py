"""A source under test: its reader in a thread, everything it emits in memory."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from replicator_sdk import (
    ChangeBatch,
    DDLEvent,
    DeltaSource,
    EventReader,
    EventReaderDefinition,
    Offset,
    OutOfRange,
    ReaderClosed,
    TableId,
    TableSchema,
    TableSnapshot,
)
from replicator_sdk.testing.contexts import CollectingEmitter, TestSourceContext


class SourcePump:
    """One replicator's source side: captured tables, state and offset over several runs of the reader.

    Args:
        source: The source.
        ids: The captured tables by the names tests call them.
    """

    def __init__(self, source: DeltaSource, ids: Mapping[str, TableId]) -> None:
        self.source = source
        self.context = TestSourceContext("pump")
        with source.create_table_registry() as registry:
            self.schemas = {table: registry.describe_table(table) for table in ids.values()}
        self.offset: Offset | None = None
        self.narrowed: frozenset[TableId] = frozenset()
        self.out_of_range = OutOfRange.FAIL

    def table(self, name: str) -> TableId:
        """A table of the test's database."""
        raise NotImplementedError

    @property
    def definition(self) -> EventReaderDefinition:
        return EventReaderDefinition(self.schemas, self.out_of_range, self.narrowed)

    def reader(self, emitter: CollectingEmitter) -> EventReader:
        """A prepared reader, tables captured."""
        reader = self.source.create_reader(self.definition, self.context, emitter)
        try:
            self.offset = reader.initialize(self.offset)
            reader.capture(list(self.schemas.values()))
        except BaseException:
            reader.close()
            raise
        return reader

    def prepare(self) -> Offset:
        """Make the log available; the offset changes will follow."""
        self.reader(CollectingEmitter()).close()
        assert self.offset is not None
        return self.offset

    @contextlib.contextmanager
    def running(self, emitter: CollectingEmitter | None = None) -> Iterator[Run]:
        """The reader running in a thread; its error, if any, is raised at the end."""
        run = Run(self, emitter or CollectingEmitter())
        try:
            yield run
        finally:
            run.stop()
        run.raise_error()

    def read(self, timeout: float = 120) -> Run:
        """Everything committed so far; the next call goes on after it."""
        target = self.source.latest_offset()
        with self.running() as run:
            run.wait_for(target, timeout)
        self.offset = run.emitter.last_offset
        self.context.committed = self.offset
        return run

    def snapshot(self, name: str) -> tuple[TableSnapshot, pa.Table]:
        """The table's rows, all chunks in one."""
        reader = self.source.create_snapshot_reader(self.definition, self.context)
        assert reader is not None
        with reader.open(self.schemas[self.table(name)]) as snapshot:
            batches = [batch for chunk in snapshot.chunks for batch in snapshot.read(chunk)]
        return snapshot, pa.Table.from_batches(batches, schema=snapshot.schema.arrow)


class Run:
    """One run of the reader."""

    def __init__(self, pump: SourcePump, emitter: CollectingEmitter) -> None:
        self.pump, self.emitter = pump, emitter
        self.error: BaseException | None = None
        self.reader = pump.reader(emitter)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.reader.run()
        except BaseException as err:  # noqa: BLE001 - raised by whoever waits
            self.error = err

    def wait_for(self, offset: Offset, timeout: float = 120) -> None:
        reached = self.emitter.wait_for(offset, timeout, self._thread.is_alive)
        if not reached and self.error is None:
            raise AssertionError(f"did not reach {offset}, only {self.emitter.last_offset}")

    def wait_until(self, condition: Callable[[], bool], timeout: float = 120) -> None:
        pause = threading.Event()
        for _ in range(int(timeout / 0.05)):
            if condition() or self.error is not None:
                return
            pause.wait(0.05)
        raise AssertionError("the condition did not come true")

    def stop(self) -> None:
        self.reader.close()
        self.emitter.close()
        self._thread.join(120)
        assert not self._thread.is_alive(), "the reader did not stop"

    def raise_error(self) -> None:
        if self.error is not None and not isinstance(self.error, ReaderClosed):
            raise self.error

    @property
    def events(self) -> list[ChangeBatch | DDLEvent]:
        """Batches and DDL events of ended windows, in the order of emission."""
        return [e for w in self.emitter.closed_windows for e in w.events if isinstance(e, (ChangeBatch, DDLEvent))]

    @property
    def ddl(self) -> list[DDLEvent]:
        return [e for e in self.events if isinstance(e, DDLEvent)]

    def batches(self, name: str) -> list[ChangeBatch]:
        return [e for e in self.events if isinstance(e, ChangeBatch) and e.table.table == name]

    def changes(self, name: str) -> list[tuple[str, dict[str, Any], dict[str, Any] | None, set[str]]]:
        """Operation, row, image before, and unsent columns of each change of a table, in order."""
        found = []
        for batch in self.batches(name):
            before = batch.before.to_pylist() if batch.before is not None else [None] * len(batch)
            ops, rows = batch.op.to_pylist(), batch.row.to_pylist()
            for i, (op, row, old) in enumerate(zip(ops, rows, before, strict=True)):
                unsent = {column for column, mask in batch.unchanged.items() if mask[i].as_py()}
                found.append(("?IUD"[op], row, old, unsent))
        return found

    def inserted(self, name: str) -> pa.Table:
        """The rows of a table's inserts, as Arrow."""
        tables = [pa.Table.from_struct_array(batch.row) for batch in self.batches(name)]
        return pa.concat_tables(tables)


def schema_of(pump: SourcePump, name: str) -> TableSchema:
    """The schema as the catalogue shows it now."""
    with pump.source.create_table_registry() as registry:
        return registry.describe_table(pump.table(name))
