"""Checks that the server's log is still the one that the saved offset was read from.

A server that was restored to an earlier state and then written past the saved offset has a log there, but a different one:
reading on would lose changes in silence. After a failover or a recovery to a point in time the timeline shows it. After a
file backup was restored it does not: there the last commit record that was read must be in the log, and no other may follow
it before the saved offset. The server must send that record again, so the slot never advances past it.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Mapping
from typing import Any, Final

import structlog

from replicator_sdk.context import DeltaSourceContext
from replicator_sdk.errors import HistoryLostError, TableHistoryLostError
from replicator_sdk.schema import TableId
from replicator_sdk.source import EventReaderDefinition
from replicator_source_postgres.connection import Endpoint
from replicator_source_postgres.hints import COPY_AGAIN, DROP_SLOT
from replicator_source_postgres.offset import CommitRecord, PostgresOffset, lsn_text
from replicator_source_postgres.pgoutput import Window
from replicator_source_postgres.replication.replication_stream import ReplicationStream, StatusThread
from replicator_source_postgres.replication.timelines import Timelines

log = structlog.get_logger(__name__)

HELD_BYTES: Final = 64 << 20
"""How much log before the saved offset the slot keeps at most, for the last commit record."""

STATE_KEY: Final = "postgres-publication"
_STATUS_SECONDS = 1.0
_MESSAGES, _BYTES = 4096, 1 << 20


def confirmable_lsn(offset: PostgresOffset) -> int:
    """Up to where the server may remove its log once `offset` is durable: not the last commit record."""
    commit = offset.commit
    return commit.lsn if commit is not None and offset.lsn - commit.lsn <= HELD_BYTES else offset.lsn


def check_timeline(timelines: Timelines, offset: PostgresOffset, slot: str) -> None:
    """Check that the history of the server's timelines includes `offset`; `slot` was read up to there.

    Raises:
        HistoryLostError: When it does not.
    """
    if why := timelines.divergence(offset):
        raise HistoryLostError(
            f"the server's log is not the one that was read: {why}; it was restored, or failed over to a server that"
            " lacked the end of the log",
            code="RPL-3211",
            position=str(offset),
            hint=f"{COPY_AGAIN}; {DROP_SLOT}('{slot}')",
        )


def check_tables_ahead(timelines: Timelines, offset: PostgresOffset, definition: EventReaderDefinition) -> None:
    """Check that the history of the server's timelines includes what single tables have beyond the saved offset.

    A table is ahead of `offset` while another one holds it, or after a run that was killed. Where the server left the timeline
    before the table's position, other transactions have positions up to there, which the table would take for what it has.

    Raises:
        TableHistoryLostError: RPL-3213, for a table of which the server lacks transactions.
    """
    if offset.timeline in {0, timelines.current}:
        return
    for table in definition.tables.keys() - definition.stopped:
        reached = definition.reached(table)
        if isinstance(reached, PostgresOffset) and (why := timelines.divergence(reached)):
            raise _lacks(table, reached, why)


def _lacks(table: TableId, reached: PostgresOffset, why: str) -> TableHistoryLostError:
    return TableHistoryLostError(
        f"the target has transactions of the table that this server lacks: {why}",
        code="RPL-3213",
        table=str(table),
        position=str(reached),
        hint="point the pipeline at a server that has them, or restart it, which copies the table again",
    )


class LogContinuity:
    """Compares the last commit read with the server's log, once at every start.

    Args:
        endpoint: Where to connect.
        slot: The slot's name; no other session uses it meanwhile.
        publication: The publication's name.
        context: Stores which publication was read.
        closed: Ends the comparison early.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        slot: str,
        publication: str,
        context: DeltaSourceContext,
        closed: threading.Event,
    ) -> None:
        self._endpoint = endpoint
        self._slot = slot
        self._publication = publication
        self._context = context
        self._closed = closed

    @property
    def former_slot(self) -> str:
        """The slot by which the log was read last, where it is another one; empty when it is this one, or is not known."""
        name = str((self._saved() or {}).get("slot", ""))
        return name if name != self._slot else ""

    def save_publication(self, identity: str, offset: PostgresOffset) -> None:
        """Store slot and publication, used from `offset` on: what another publication selected may not be sent again.

        A state of an earlier release names no slot: the one that it is read by now is logged.
        """
        saved = self._saved()
        since = 0 if saved is None else saved["since"] if saved["publication"] == identity else offset.lsn
        now = {"publication": identity, "since": since, "slot": self._slot}
        if saved is not None and "slot" not in saved:
            log.warning(
                "slot.noted",
                slot=self._slot,
                position=str(offset),
                reason="the state did not name the slot it was read by",
            )
        if now != saved:
            self._context.put_state(STATE_KEY, json.dumps(now).encode())

    def _saved(self) -> dict[str, Any] | None:
        stored = self._context.get_state(STATE_KEY)
        return None if stored is None else json.loads(stored)

    def _is_comparable(self, commit: CommitRecord, confirmed: PostgresOffset | None, publication: str) -> bool:
        if confirmed is None or commit.lsn < confirmed.lsn:
            return False
        saved = self._saved()
        return saved is None or (saved["publication"] == publication and saved["since"] <= commit.lsn)

    def check(self, offset: PostgresOffset, confirmed: PostgresOffset | None, publication: str) -> None:
        """Check that the log up to `offset` is the one it was read from; does nothing where they cannot be compared.

        Args:
            offset: The saved offset.
            confirmed: The slot's confirmed position; the server sends nothing that was committed before.
            publication: The publication's identity now.

        Raises:
            HistoryLostError: When it is a different one.
        """
        commit = offset.commit
        if commit is None or not self._is_comparable(commit, confirmed, publication):
            log.info("log.last_commit_not_compared", slot=self._slot, position=str(offset))
            return
        stream = ReplicationStream.open(self._endpoint, self._slot, self._publication, PostgresOffset(commit.lsn))
        with contextlib.closing(stream), StatusThread(stream, lambda: PostgresOffset(0), _STATUS_SECONDS):
            check_timeline(stream.timelines, offset, self._slot)
            is_same = self._is_same(stream, commit, offset.lsn)
        if not is_same:
            raise HistoryLostError(
                f"the server's log is not the one that was read: it lacks the commit at {lsn_text(commit.lsn)}, or holds"
                " others after it that were not read; the server was restored to an earlier state and written to since",
                code="RPL-3212",
                position=str(offset),
                hint=f"{COPY_AGAIN}; {DROP_SLOT}('{self._slot}')",
            )

    def ahead(
        self, offset: PostgresOffset, definition: EventReaderDefinition, publication: str
    ) -> dict[TableId, PostgresOffset]:
        """How far tables are beyond `offset` on the same timeline, where that can be compared with the log."""
        saved = self._saved()
        if saved is not None and saved["publication"] != publication:
            return {}
        reached = {table: definition.reached(table) for table in definition.tables.keys() - definition.stopped}
        return {
            table: at
            for table, at in reached.items()
            if isinstance(at, PostgresOffset) and at.commit is not None
            if offset.lsn <= at.commit.lsn and at.timeline == offset.timeline != 0
        }

    def check_tables(self, ahead: Mapping[TableId, PostgresOffset], end: int) -> None:
        """Check that the log has the last commits of tables that are beyond the saved offset.

        A server that was restored to a state after the saved offset, and before such a commit, gives others its place; the table
        would take them for what it has. A log that has the latest of these commits has all before it; where it lacks that one, the
        other tables are checked by the next attempt.

        Args:
            ahead: What `ahead` returns.
            end: Where the server's log ends.

        Raises:
            TableHistoryLostError: RPL-3213, for a table whose commit the log lacks.
        """
        for table, reached in sorted(ahead.items(), key=lambda each: each[1].lsn, reverse=True)[:1]:
            assert reached.commit is not None
            if end >= reached.lsn:
                at = PostgresOffset(reached.commit.lsn)
                stream = ReplicationStream.open(self._endpoint, self._slot, self._publication, at)
                with contextlib.closing(stream), StatusThread(stream, lambda: PostgresOffset(0), _STATUS_SECONDS):
                    if stream.timelines.current != reached.timeline or self._is_same(
                        stream, reached.commit, reached.lsn
                    ):
                        return  # another timeline is compared by `check_tables_ahead`
            raise _lacks(table, reached, f"its log lacks the commit at {lsn_text(reached.commit.lsn)}")

    def _is_same(self, stream: ReplicationStream, commit: CommitRecord, until: int) -> bool:
        """Whether the log holds `commit`, and after it no other commit before `until`."""
        messages: list[memoryview | bytes] = []
        is_found = False
        while not self._closed.is_set():
            stream.receive(messages, _MESSAGES, _BYTES, 0.05)
            for lsn, timestamp in Window(messages).begin_records():
                if is_found:
                    return lsn >= until
                if CommitRecord(lsn, timestamp) != commit:
                    return False
                is_found = True
            messages.clear()
            # After the messages, since the server reports its end in their order.
            if stream.wal_end > commit.lsn and not is_found:
                return False
            if is_found and stream.wal_end >= until:
                return True
        return True
