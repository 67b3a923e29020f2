"""Decodes a backlog into Arrow and drops it: log to columns, with no target; run as a process of its own.

Usage: decode.py PLUGIN SETTINGS TABLE CHANGES KEPT, where SETTINGS is the source's properties as JSON and KEPT a file that
keeps offset and state until the next run. Prints "changes seconds": how many changes it saw and the seconds from the reader's
start to the last of them. Without changes it only begins at the log's end.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path

from replicator_sdk import ChangeBatch, Commits, DDLEvent, DMLEvent, EventEmitter, EventReaderDefinition, OutOfRange
from replicator_sdk.source import DeltaSource
from replicator_sdk.testing.contexts import TestSourceContext
from replicator_source_mysql.plugin import MySqlSource
from replicator_source_postgres.plugin import PostgresSource

_SOURCES: dict[str, type[DeltaSource]] = {"postgres": PostgresSource, "mysql": MySqlSource}


class Nowhere(EventEmitter):
    """Counts changes and lets the log move on as if they were durable."""

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


def main(plugin: str, settings: str, name: str, wanted: int, kept: Path) -> None:
    """Read until `wanted` changes came."""
    kind = _SOURCES[plugin]
    source = kind(kind.config_type.model_validate(json.loads(settings)))
    registry = source.create_table_registry()
    table = next(t.table for t in registry.list_tables() if t.table.table == name)
    schema = registry.describe_table(table)
    context = TestSourceContext("bench")
    _restore(context, source, kept)
    emitter = Nowhere(context, wanted)
    reader = source.create_reader(EventReaderDefinition({table: schema}, OutOfRange.FAIL), context, emitter)
    started = time.monotonic()
    context.committed = reader.initialize(context.committed)
    reader.capture([schema])
    if wanted:
        thread = threading.Thread(target=reader.run)
        thread.start()
        if not emitter.done.wait(300):
            raise SystemExit(f"saw {emitter.changes} of {wanted} changes")
        time.sleep(1.5)  # a slot is confirmed at intervals of its own
        reader.close()
        thread.join(30)
    _keep(context, kept)
    print(emitter.changes, emitter.last - started)


def _keep(context: TestSourceContext, kept: Path) -> None:
    assert context.committed is not None
    parts = {"offset": context.committed.fields(), "state": context.state}
    text = {part: {key: value.decode("latin-1") for key, value in fields.items()} for part, fields in parts.items()}
    kept.write_text(json.dumps(text))


def _restore(context: TestSourceContext, source: DeltaSource, kept: Path) -> None:
    if not kept.exists():
        return
    parts = {
        part: {key: value.encode("latin-1") for key, value in fields.items()}
        for part, fields in json.loads(kept.read_text()).items()
    }
    context.state.update(parts["state"])
    context.committed = source.offset_type.from_fields(parts["offset"])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), Path(sys.argv[5]))
