"""The server's timelines, and which of them holds which part of its log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import structlog

from replicator_sdk.errors import ReplicatorError
from replicator_source_postgres.connection import replication_command
from replicator_source_postgres.offset import PostgresOffset, lsn_text

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Timelines:
    """The timelines that lead to the server's current one.

    Attributes:
        current: The timeline the server writes; 0 unknown.
        ends: The timelines before it, oldest first, each with the position where the next one begins; None unknown.
    """

    current: int = 0
    ends: tuple[tuple[int, int], ...] | None = ()

    @classmethod
    def read(cls, connection: PGconn) -> Self:
        """Read the timelines over a replication connection that does not stream yet."""
        current = int(replication_command(connection, "IDENTIFY_SYSTEM")[0]["timeline"] or 0)
        if current == 1:
            return cls(1)
        try:
            content = replication_command(connection, f"TIMELINE_HISTORY {current}")[0]["content"] or ""
        except ReplicatorError as err:
            if err.code == "RPL-3107":  # the connection is lost
                raise
            log.warning("log.timelines_not_shown", timeline=current, why=err.message)
            return cls(current, None)
        return cls(current, tuple(_ends(content)))

    def at(self, lsn: int) -> int:
        """The timeline that holds the log up to `lsn`."""
        return next((timeline for timeline, end in self.ends or () if lsn <= end), self.current)

    def divergence(self, offset: PostgresOffset) -> str | None:
        """How the server's history differs from the one that `offset` was read from; None when it includes the offset."""
        if offset.timeline in {0, self.current} or self.ends is None:
            return None
        end = dict(self.ends).get(offset.timeline)
        if end is None:
            return f"timeline {offset.timeline} is not in the history of the server's timeline {self.current}"
        if end < offset.lsn:
            return f"the server left timeline {offset.timeline} at {lsn_text(end)}, before {offset}"
        return None


def _ends(content: str) -> list[tuple[int, int]]:
    """The lines of a timeline history file: timeline, where the next one begins, why."""
    found = []
    for line in content.splitlines():
        parts = line.split("#", 1)[0].split()
        if len(parts) >= 2:
            found.append((int(parts[0]), PostgresOffset.parse(parts[1]).lsn))
    return found
