"""Decodes a backlog into Arrow and drops it: log to columns, with nothing behind; run as a process of its own.

Usage: decode.py SETTINGS TABLE CHANGES, where SETTINGS is the source's properties as JSON. Prints "changes seconds": how
many changes it saw and the seconds from the reader's start to the last of them.
"""

from __future__ import annotations

import json
import sys
import threading
import time

from replicator_sdk import ChangeBatch, Commits, DDLEvent, DMLEvent, EventEmitter, EventReaderDefinition, OutOfRange
from replicator_sdk.testing.contexts import TestSourceContext
from replicator_source_postgres.config import PostgresConfig
from replicator_source_postgres.plugin import PostgresSource


class Nowhere(EventEmitter):
    """Counts changes and lets the slot move on as if they were durable."""

    def __init__(self, context: TestSourceContext, wanted: int) -> None:
        self._context, self._wanted = context, wanted
        self.changes = 0
        self.last = 0.0
        self.done = threading.Event()

    def emit(self, event: DDLEvent | DMLEvent) -> None:
        """Nothing of this table's structure may change."""
        raise AssertionError(f"unexpected {event!r}")

    def emit_batch(self, batch: ChangeBatch) -> None:
        """Count."""
        self.changes += len(batch)
        self.last = time.monotonic()

    def emit_commits(self, commits: Commits) -> None:
        """What was read is done with."""
        self._context.committed = commits.last
        if self.changes >= self._wanted:
            self.done.set()


def main(settings: str, name: str, wanted: int) -> None:
    """Read until `wanted` changes came."""
    source = PostgresSource(PostgresConfig.model_validate(json.loads(settings)))
    registry = source.create_table_registry()
    table = next(t.table for t in registry.list_tables() if t.table.table == name)
    schema = registry.describe_table(table)
    context = TestSourceContext()
    emitter = Nowhere(context, wanted)
    definition = EventReaderDefinition({table: schema}, OutOfRange.FAIL)
    reader = source.create_reader(definition, context, emitter)
    started = time.monotonic()
    context.committed = reader.initialize(None)
    thread = threading.Thread(target=reader.run)
    thread.start()
    if not emitter.done.wait(300):
        raise SystemExit(f"saw {emitter.changes} of {wanted} changes")
    time.sleep(1.5)  # the slot is told on a beat of its own
    reader.close()
    thread.join(30)
    print(emitter.changes, emitter.last - started)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
