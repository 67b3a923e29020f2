"""Whether the server's log is still the one the saved offset was read from (C6).

A server that was restored to an earlier state and then written past the saved offset has a log there, but another one.
Its timeline shows that after a failover or a recovery to a point in time. After a file backup was put back it does not:
there the last commit record read tells, and that none follows it before the saved offset. It must be sent again, so the
slot is kept from moving past it.
"""

from __future__ import annotations

import contextlib
import json
import threading
from typing import Any, Final

import structlog

from replicator_sdk.context import DeltaSourceContext
from replicator_sdk.errors import HistoryLostError
from replicator_source_postgres.connection import Endpoint
from replicator_source_postgres.offset import CommitRecord, PostgresOffset, lsn_text
from replicator_source_postgres.pgoutput import Window
from replicator_source_postgres.stream import ReplicationStream, StatusThread
from replicator_source_postgres.timelines import Timelines

log = structlog.get_logger(__name__)

HELD_BYTES: Final = 64 << 20
"""How far behind the saved offset the slot is kept at most, for the sake of the last commit record."""

STATE_KEY: Final = "postgres-publication"
_STATUS_SECONDS = 1.0
_MESSAGES, _BYTES = 4096, 1 << 20
_COPY_AGAIN = (
    "give the pipeline another `name` (and another `slot`, where it has one) and its target another place; it then copies"
    " all tables. Drop the old slot once it is not needed"
)


def telling(offset: PostgresOffset) -> int:
    """Up to where the server may forget its log once `offset` is durable: the last commit record stays."""
    commit = offset.commit
    return commit.lsn if commit is not None and offset.lsn - commit.lsn <= HELD_BYTES else offset.lsn


def check_timeline(timelines: Timelines, offset: PostgresOffset) -> None:
    """Make sure that the server's timelines lead through the place of `offset`.

    Raises:
        HistoryLostError: When they do not.
    """
    if why := timelines.parting(offset):
        raise HistoryLostError(
            f"the server's log is not the one that was read: {why}; it was restored, or failed over to a server that"
            " lacked the end of the log",
            code="RPL-3211",
            position=str(offset),
            hint=_COPY_AGAIN,
        )


class History:
    """Compares the last commit read with the server's log; asked once at every start.

    Args:
        endpoint: Where to connect.
        slot: The slot's name; nobody else uses it meanwhile.
        publication: The publication's name.
        context: Keeps which publication was read.
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

    def keep_publication(self, identity: str, offset: PostgresOffset) -> None:
        """Remember the publication, read from `offset` on: what was read through another one may not be sent again."""
        kept = self._kept()
        if kept is None or kept["publication"] != identity:
            since = 0 if kept is None else offset.lsn
            self._context.put_state(STATE_KEY, json.dumps({"publication": identity, "since": since}).encode())

    def _kept(self) -> dict[str, Any] | None:
        stored = self._context.get_state(STATE_KEY)
        return None if stored is None else json.loads(stored)

    def _is_comparable(self, commit: CommitRecord, confirmed: PostgresOffset | None, publication: str) -> bool:
        if confirmed is None or commit.lsn < confirmed.lsn:
            return False
        kept = self._kept()
        return kept is None or (kept["publication"] == publication and kept["since"] <= commit.lsn)

    def check(self, offset: PostgresOffset, confirmed: PostgresOffset | None, publication: str) -> None:
        """Make sure that the log up to `offset` is the one it was read from; where it cannot be compared, go on.

        Args:
            offset: The saved offset.
            confirmed: Where the slot stands; the server sends nothing that was committed before.
            publication: The publication's identity now.

        Raises:
            HistoryLostError: When it is another.
        """
        commit = offset.commit
        if commit is None or not self._is_comparable(commit, confirmed, publication):
            log.info("last commit cannot be compared", slot=self._slot, position=str(offset))
            return
        stream = ReplicationStream.open(self._endpoint, self._slot, self._publication, PostgresOffset(commit.lsn))
        with contextlib.closing(stream), StatusThread(stream, lambda: PostgresOffset(0), _STATUS_SECONDS):
            check_timeline(stream.timelines, offset)
            is_same = self._is_same(stream, commit, offset.lsn)
        if not is_same:
            raise HistoryLostError(
                f"the server's log is not the one that was read: it lacks the commit at {lsn_text(commit.lsn)}, or holds"
                " others after it that were not there; the server was restored to an earlier state and written to since",
                code="RPL-3212",
                position=str(offset),
                hint=_COPY_AGAIN,
            )

    def _is_same(self, stream: ReplicationStream, commit: CommitRecord, until: int) -> bool:
        """Whether the log holds `commit`, and after it no other commit before `until`."""
        messages: list[memoryview | bytes] = []
        is_there = False
        while not self._closed.is_set():
            stream.receive(messages, _MESSAGES, _BYTES, 0.05)
            for lsn, timestamp in Window(messages).begin_records():
                if is_there:
                    return lsn >= until
                if CommitRecord(lsn, timestamp) != commit:
                    return False
                is_there = True
            messages.clear()
            # Behind the messages, since the server tells it in their order.
            if stream.wal_end > commit.lsn and not is_there:
                return False
            if is_there and stream.wal_end >= until:
                return True
        return True
