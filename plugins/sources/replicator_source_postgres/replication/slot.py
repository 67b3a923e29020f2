"""The replication slot, by which the server keeps the log after a position."""

from __future__ import annotations

import contextlib
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog

from replicator_sdk.errors import HistoryLostError, NeedsUserError, RetryableError
from replicator_source_postgres.hints import COPY_AGAIN, DROP_SLOT, HEAL
from replicator_source_postgres.offset import PostgresOffset

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

log = structlog.get_logger(__name__)

_SLOT = """
SELECT s.plugin, s.database, s.active_pid, s.confirmed_flush_lsn - '0/0'::pg_lsn, s.wal_status,
       coalesce(pg_catalog.pg_current_wal_lsn() - s.restart_lsn, -1)::int8,
       coalesce((pg_catalog.to_jsonb(s) ->> 'two_phase')::bool, false)
FROM pg_catalog.pg_replication_slots s WHERE s.slot_name = %s
"""
_DROP_ANY = """
SELECT pg_catalog.pg_drop_replication_slot(slot_name) FROM pg_catalog.pg_replication_slots WHERE slot_name = %s
"""


@dataclass(frozen=True, slots=True)
class SlotState:
    """What the server reports of a slot.

    Attributes:
        plugin: Its output plugin; None for a physical slot.
        database: Its database.
        active_pid: The session that uses it; None when it is free.
        confirmed: Up to where it was confirmed; the server never again sends what is before.
        wal_status: `reserved`, `extended`, `unreserved` or `lost`; None when its log is gone.
        held_bytes: How much WAL it keeps; -1 unknown.
        is_two_phase: Whether it sends prepared transactions before they commit, by messages that are not read here.
    """

    plugin: str | None
    database: str | None
    active_pid: int | None
    confirmed: PostgresOffset | None
    wal_status: str | None
    held_bytes: int
    is_two_phase: bool = False

    @property
    def is_lost(self) -> bool:
        """Whether the server has removed the log that the slot should keep."""
        return self.wal_status in {None, "lost"} or self.confirmed is None


class Slot:
    """One logical slot, checked and created over one SQL connection."""

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]], name: str, database: str) -> None:
        self.name = name
        self._connection = connection
        self._database = database
        self._prepared = ""

    def state(self) -> SlotState | None:
        """What the server reports of it; None when it does not exist."""
        row = self._connection.execute(_SLOT, [self.name]).fetchone()
        if row is None:
            return None
        plugin, database, pid, confirmed, *rest = row
        return SlotState(plugin, database, pid, None if confirmed is None else PostgresOffset(int(confirmed)), *rest)

    def create(self) -> PostgresOffset:
        """Create it; waits until the transactions running now have ended, and returns its consistent point."""
        offset = self._create(self.name, is_temporary=False)
        log.info("slot.created", slot=self.name, position=str(offset))
        return offset

    @contextlib.contextmanager
    def prepared(self) -> Iterator[PostgresOffset]:
        """What `create` returns, at which the block may create it by `create_prepared`, as often as wanted and without a wait.

        A temporary slot holds the log meanwhile, which the server drops at an error, and with the session at the latest. So the position is
        known before a slot exists that stays.
        """
        other = f"replicator_prepares_{secrets.token_hex(8)}"
        offset = self._create(other, is_temporary=True)
        self._prepared = other
        try:
            yield offset
        finally:
            self._prepared = ""
            if not self._connection.closed:
                self._connection.execute(_DROP_ANY, [other])

    def create_prepared(self) -> None:
        """Create it at the position that `prepared` has given."""
        query = "SELECT pg_catalog.pg_copy_logical_replication_slot(%s, %s, false)"
        self._connection.execute(query, [self._prepared, self.name])
        log.info("slot.created", slot=self.name)

    def _create(self, name: str, *, is_temporary: bool) -> PostgresOffset:
        query = "SELECT lsn - '0/0'::pg_lsn FROM pg_catalog.pg_create_logical_replication_slot(%s, 'pgoutput', %s)"
        self._connection.execute("SET lock_timeout = 0")
        try:
            row = self._connection.execute(query, [name, is_temporary]).fetchone()
        finally:
            if not self._connection.closed:
                self._connection.execute("RESET lock_timeout")
        assert row is not None
        return PostgresOffset(int(row[0]))

    def drop(self) -> None:
        """Drop it; the server may remove the log then."""
        self._connection.execute("SELECT pg_catalog.pg_drop_replication_slot(%s)", [self.name])
        log.info("slot.dropped", slot=self.name)

    def begin_given(self) -> PostgresOffset:
        """The offset to start from when nothing was replicated yet, with a slot that the user has named: an existing one is used as it is."""
        state = self.state()
        if state is None:
            return self.create()
        self._check_kind(state)
        self._check_free(state)
        if state.is_lost:
            raise self._lost(state, "before anything was replicated")
        assert state.confirmed is not None
        return state.confirmed

    def resume(self, offset: PostgresOffset) -> SlotState:
        """Check that the log after `offset` still exists and that no other session reads it.

        Raises:
            HistoryLostError: When the log is gone; the reader never starts elsewhere instead.
            RetryableError: When another session uses the slot.
        """
        state = self.check_log(offset)
        self._check_free(state)
        return state

    def check_log(self, offset: PostgresOffset) -> SlotState:
        """Check that the log after `offset` still exists, whoever reads it.

        Raises:
            HistoryLostError: When it is gone.
            NeedsUserError: When the slot is of another kind.
        """
        state = self.state()
        if state is None:
            raise HistoryLostError(
                f"the replication slot {self.name!r} does not exist any more, and the log after the saved offset is lost",
                code="RPL-3203",
                position=str(offset),
                hint=HEAL,
            )
        self._check_kind(state)
        if state.is_lost:
            raise self._lost(state, f"after {offset}")
        assert state.confirmed is not None
        if offset.lsn < state.confirmed.lsn:
            raise HistoryLostError(
                f"the slot {self.name!r} was confirmed up to {state.confirmed}, beyond the saved offset; another client"
                " read from it, or the state is an old copy",
                code="RPL-3204",
                position=str(offset),
                hint="where the state is an old copy, put the newer state back; else, if no other replicator reads the slot, drop it: SELECT"
                f" pg_drop_replication_slot('{self.name}'); then {HEAL}",
            )
        self._check_end(offset)
        return state

    def log_end(self) -> int:
        """Where the log that is written ends now: the server sends all of it, as soon as it is flushed."""
        return self._position("pg_current_wal_lsn")

    def next_record(self) -> int:
        """Where the server's next record begins: no position that it has named is after it.

        It may be after `log_end`, by records that are not written, and by the header of a page whose first record does not exist.
        """
        return self._position("pg_current_wal_insert_lsn")

    def _position(self, function: str) -> int:
        query = f"SELECT pg_catalog.{function}() - '0/0'::pg_lsn"
        row = self._connection.execute(query).fetchone()
        return int(row[0]) if row else 0

    def _check_end(self, offset: PostgresOffset) -> None:
        end = PostgresOffset(self.next_record())
        if end.lsn < offset.lsn:
            raise HistoryLostError(
                f"the server's log ends at {end}, before the saved offset: it was restored or failed over",
                code="RPL-3205",
                position=str(offset),
                hint=f"{COPY_AGAIN}; {DROP_SLOT}('{self.name}')",
            )

    def check_usable(self, state: SlotState) -> None:
        """Check that the slot is one for this source, and that no other session uses it.

        Raises:
            NeedsUserError: RPL-3206 when it is of another kind.
            RetryableError: RPL-3104 when another session uses it.
        """
        self._check_kind(state)
        self._check_free(state)

    def _check_kind(self, state: SlotState) -> None:
        if state.plugin != "pgoutput" or state.database != self._database:
            raise NeedsUserError(
                f"the slot {self.name!r} is for plugin {state.plugin} in database {state.database}, not for pgoutput in"
                f" {self._database}",
                code="RPL-3206",
                hint="name another slot, or remove `slot`, so that the replicator creates its own",
            )
        if state.is_two_phase:
            raise NeedsUserError(
                f"the slot {self.name!r} was created for two-phase commits: it sends transactions when they are prepared, and they may be"
                " rolled back",
                code="RPL-3206",
                hint="name a slot that was created without `two_phase`, or remove `slot`, so that the replicator creates its own",
            )

    def _check_free(self, state: SlotState) -> None:
        if state.active_pid is not None:
            raise RetryableError(
                f"the slot {self.name!r} is in use by the server process {state.active_pid}",
                code="RPL-3104",
                hint="stop the other run; after a crash the server frees the slot within wal_sender_timeout",
            )

    def _lost(self, state: SlotState, where: str) -> HistoryLostError:
        return HistoryLostError(
            f"the slot {self.name!r} has lost the log {where} (wal_status {state.wal_status})",
            code="RPL-3202",
            hint=f"raise max_slot_wal_keep_size; then {HEAL}; {DROP_SLOT}('{self.name}')",
        )
