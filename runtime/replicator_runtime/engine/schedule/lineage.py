"""Publishes the lineage of a run: looks at its tables every few seconds, in a thread of its own."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import structlog

from replicator_runtime.engine.run_state.progress import error_view
from replicator_runtime.engine.run_state.unknown_errors import summary
from replicator_runtime.engine.tables.table_state import TableState
from replicator_runtime.lineage.changes import Seen
from replicator_runtime.lineage.client_modules import postpone_packages
from replicator_runtime.lineage.datasets import TableLineage, describe
from replicator_runtime.lineage.publisher import Publisher
from replicator_runtime.lineage.transport import open_transport

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from replicator_runtime.engine.run_state.run import Run
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_runtime.lineage.events import Events
    from replicator_sdk import TableId, TableSchema

log = structlog.get_logger()
_LOOK_SECONDS: Final = 2.0
_END_SECONDS: Final = 10.0
_CLOSE_SECONDS: Final = 5.0
_AT_TARGET: Final = frozenset({TableState.SNAPSHOTTING, TableState.REPLICATING, TableState.PAUSED})


@contextmanager
def publishing_lineage(run: Run) -> Iterator[None]:
    """Publish the run's begin, what is new of its tables within the block, and how it ends; what fails of it fails no run."""
    if run.pipeline.lineage_transport is None or run.config.lineage is None:
        yield
        return
    work = _Work(run, run.config.lineage.every_minutes * 60.0, is_first=not _has_run(run))
    work.thread.start()
    try:
        yield
    except BaseException as error:
        work.end("FAIL", "{code}: {message}".format(**error_view(error)).removeprefix(": "))
        raise
    else:
        work.end("ABORT" if run.stop.is_set() else "COMPLETE")


def _has_run(run: Run) -> bool:
    """Whether an earlier run has saved an offset; asked before this one does."""
    try:
        return run.offsets.latest() is not None
    except Exception:  # noqa: BLE001 - the run meets it, too
        return True


class _Work:
    """Used by its own thread, but for `end`.

    Args:
        run: The run.
        every_seconds: How often rows written are said.
        is_first: Whether no run was before, so that all tables are new.
    """

    def __init__(self, run: Run, every_seconds: float, *, is_first: bool) -> None:
        self.thread = threading.Thread(target=self._loop, name="lineage", daemon=True)
        self._run = run
        self._every = every_seconds
        self._stop = threading.Event()
        self._ended: tuple[str, str] = ("COMPLETE", "")
        self._seen = Seen(first=not is_first)
        self._selected: frozenset[TableId] = frozenset()
        self._known: dict[
            TableId, tuple[tuple[TableSchema, tuple[str, Mapping[str, str]] | None, str], TableLineage]
        ] = {}
        self._written: dict[TableId, int] = {}
        self._said = ""

    def end(self, state: str, error: str = "") -> None:
        """Have the run's end published, and wait for that, but not for long."""
        self._ended = state, error
        self._stop.set()
        self.thread.join(_END_SECONDS)
        if self.thread.is_alive():
            log.warning("lineage.lost", why="its receiver does not answer")

    def _loop(self) -> None:
        try:
            self._publish()
        except Exception as failure:  # noqa: BLE001 - data goes on
            log.warning("lineage.ended", error=summary(failure))

    def _publish(self) -> None:
        postpone_packages()
        from openlineage.client.event_v2 import RunState

        from replicator_runtime.lineage.events import Events

        run, settings = self._run, self._run.pipeline.lineage_transport or {}
        events = Events(run.config.namespace, run.config.name, run.run_id)
        publisher = Publisher(lambda: open_transport(settings))
        publisher.add(events.start())
        publisher.send()
        written_at = time.monotonic()
        while not self._stop.wait(_LOOK_SECONDS):
            self._look(events, publisher)
            if time.monotonic() - written_at >= self._every:
                written_at = time.monotonic()
                self._say_written(events, publisher)
            self._seen.again |= publisher.send()
        self._look(events, publisher)
        state, error = self._ended
        publisher.add(events.end(RunState[state], error))
        publisher.close(_CLOSE_SECONDS)

    def _look(self, events: Events, publisher: Publisher) -> None:
        """Queue what is new; an error is said once, and looked for again."""
        try:
            now, gone = self._tables()
            for event in events.changed(self._seen.changes(now, gone)):
                publisher.add(event)
            self._said = ""
        except Exception as failure:  # noqa: BLE001 - of a plugin that cannot name a table, say
            if self._said != (said := summary(failure)):
                self._said = said
                log.warning("lineage.not_known", error=said)

    def _tables(self) -> tuple[Mapping[TableId, TableLineage], frozenset[TableId]]:
        """The lineage of the tables at the target, and the tables that the source has dropped."""
        run = self._run
        records = dict(run.table_store.records)
        found = {}
        for table, record in records.items():
            if record.schemas and (record.state in _AT_TARGET or table in self._seen.tables):
                found[table] = self._described(table, record)
        for table in self._known.keys() - records.keys():
            del self._known[table]
            self._written.pop(table, None)
        gone = self._selected - records.keys()
        self._selected = frozenset(table for table, record in records.items() if record.selected) or self._selected
        return found, gone if run.progress.phase == "streaming" else frozenset()

    def _described(self, table: TableId, record: TableRecord) -> TableLineage:
        """The table's lineage, made again only when something of it is another: it is looked at every few seconds."""
        now = record.schema, self._run.lineage.recorded(table), record.copy_id
        known = self._known.get(table)
        if known is None or known[0][0] is not now[0] or known[0][1:] != now[1:]:
            known = self._known[table] = now, describe(self._run.pipeline, *now)
        return known[1]

    def _say_written(self, events: Events, publisher: Publisher) -> None:
        rows: dict[TableLineage, int] = {}
        for view in self._run.progress.snapshot().tables:
            applied = view.rows if view.state is TableState.REPLICATING else 0  # else those of its copy
            before, self._written[view.table] = self._written.get(view.table, 0), applied
            more = applied - before if applied >= before else applied  # it has been copied again meanwhile
            if more and (lineage := self._seen.tables.get(view.table)) is not None:
                rows[lineage] = more
        for event in events.written(rows):
            publisher.add(event)
