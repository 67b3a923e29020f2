"""A process that reads a source into a file and is killed by its environment: `python -m … JOB`.

The file is the kit's target: after each window the rows, the offset after it and what the source's plugin has stored replace
what it had before, all at once. The first run copies the tables by the source's snapshots.
"""

from __future__ import annotations

import pickle
import threading
from dataclasses import dataclass, field
from pathlib import Path

from replicator_sdk.config import PluginConfig
from replicator_sdk.offset import Offset
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.source import DeltaSource, EventReader, EventReaderDefinition, ReaderClosed
from replicator_sdk.testing.contexts import CollectingEmitter, TestSourceContext, Window
from replicator_sdk.testing.histories.reference import Reference
from replicator_sdk.testing.kills.child import LineCounter, main_of_child
from replicator_sdk.testing.recording import lay_out
from replicator_sdk.testing.source_system import table_of


@dataclass
class Stored:
    """What outlives the process.

    Attributes:
        offset: Where reading goes on; None before the first run has copied the tables.
        reference: The tables at `offset`.
        copies: Table → the position of its copy, and how late its rows may be.
        state: What the plugin stored by `put_state`.
    """

    offset: Offset | None = None
    reference: Reference = field(default_factory=Reference)
    copies: dict[TableId, tuple[Offset, Offset | None]] = field(default_factory=dict)
    state: dict[str, bytes] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> Stored:
        """What is in the file; nothing when there is none."""
        found: Stored = pickle.loads(path.read_bytes()) if path.exists() else cls()  # noqa: S301 - written by `save`
        return found

    def save(self, path: Path) -> None:
        """Replace the file at once."""
        new = path.with_suffix(".new")
        new.write_bytes(pickle.dumps(self))
        new.replace(path)


@dataclass(frozen=True)
class Job:
    """What one process does.

    Attributes:
        source: The plugin's class.
        config: Its settings.
        schemas: The tables as they were before the first run.
        until: It ends when it has emitted everything up to here.
        has_snapshots: Whether the source copies tables.
        file: Where `Stored` is.
        seconds: How long it waits for `until`.
    """

    source: type[DeltaSource]
    config: PluginConfig
    schemas: dict[TableId, TableSchema]
    until: Offset
    has_snapshots: bool
    file: Path
    seconds: float


class _Context(TestSourceContext):
    """Keeps the plugin's state in the file."""

    def __init__(self, stored: Stored, file: Path) -> None:
        super().__init__(state=stored.state)
        self.committed = stored.offset
        self._stored, self._file = stored, file

    def put_state(self, key: str, value: bytes) -> None:
        """Durable on return."""
        super().put_state(key, value)
        self._stored.save(self._file)


class _Run:
    """One process's work."""

    def __init__(self, job: Job) -> None:
        self._job, self._stored = job, Stored.load(job.file)
        self._source = job.source(job.config)
        self._context, self._emitter = _Context(self._stored, job.file), CollectingEmitter()
        there = {table: found.schema for table, found in self._stored.reference.tables.items()}
        self._definition = EventReaderDefinition(there or job.schemas)
        self._reached = False

    def read(self, counter: LineCounter) -> None:
        """Read up to the job's end."""
        reader = self._source.create_reader(self._definition, self._context, self._emitter)
        with counter.watching(type(reader)):
            start = reader.initialize(self._stored.offset)
            reader.capture(list(self._definition.tables.values()))
            if self._stored.offset is None:
                self._copy(start)
            ender = threading.Thread(target=self._store_until_the_end, args=(reader, start))
            ender.start()
            try:
                reader.run()
            except ReaderClosed:
                pass
            finally:
                self._emitter.close()
                ender.join()
        assert self._reached, f"{self._job.until} was not reached; the reader is at {self._emitter.last_offset}"

    def _copy(self, start: Offset) -> None:
        for schema in self._definition.tables.values():
            self._stored.reference.create(schema)
            if self._job.has_snapshots:
                self._copy_table(schema)
        self._save(start)

    def _copy_table(self, schema: TableSchema) -> None:
        snapshots = self._source.create_snapshot_reader(self._definition, self._context)
        assert snapshots is not None
        with snapshots.open(schema) as snapshot:
            batches = (batch for chunk in snapshot.chunks for batch in snapshot.read(chunk))
            self._stored.reference.tables[schema.table].rows[:] = [
                row for batch in batches for row in batch.to_pylist()
            ]
            self._stored.copies[schema.table] = (snapshot.position, snapshot.end())
        snapshots.close()

    def _store_until_the_end(self, reader: EventReader, start: Offset) -> None:
        """In a thread of its own: store each window, then close the reader."""
        until, done = self._job.until, 0
        try:
            waits = int(self._job.seconds * 20)
            for _ in range(waits):
                self._reached = not start < until or self._emitter.wait_for(until, 0.05)
                windows = self._emitter.closed_windows
                for window in windows[done:]:
                    self._apply(window)
                done = len(windows)
                if self._reached:
                    break
        finally:
            reader.close()
            self._emitter.close()

    def _apply(self, window: Window) -> None:
        reference, copies = self._stored.reference, self._stored.copies
        schemas = {table: found.schema for table, found in reference.tables.items()}
        for entry in lay_out([window], schemas):
            position, end = copies.get(table_of(entry.change), (None, None))
            if position is None or position < entry.offset:
                reference.apply(entry.change, overlap=end is not None and not end < entry.offset)
        assert window.commits is not None
        self._save(window.commits.last)

    def _save(self, offset: Offset) -> None:
        self._stored.offset = offset
        self._stored.save(self._job.file)
        self._context.committed = offset


def run(job: object, counter: LineCounter) -> None:
    """Do the job."""
    assert isinstance(job, Job)
    _Run(job).read(counter)


if __name__ == "__main__":
    # The job was pickled with the classes of this module, not with those of `__main__`.
    from replicator_sdk.testing.kills import source_process  # noqa: PLW0406

    main_of_child(source_process.run)
