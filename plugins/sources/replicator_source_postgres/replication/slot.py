"""The replication slot, by which the server keeps the log after a position."""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog

from replicator_sdk.errors import HistoryLostError, NeedsUserError, RetryableError
from replicator_source_postgres.connection import driver
from replicator_source_postgres.hints import COPY_AGAIN, DROP_SLOT, HEAL
from replicator_source_postgres.offset import PostgresOffset

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from replicator_sdk.context import DeltaContext

CREATED_KEY = "slot-created"
"""In the source's state: the slot that this state has created, or is about to create; empty when another state created it first."""
log = structlog.get_logger(__name__)

_SLOT = """
SELECT s.plugin, s.database, s.active_pid, s.confirmed_flush_lsn - '0/0'::pg_lsn, s.wal_status,
       coalesce(pg_catalog.pg_current_wal_lsn() - s.restart_lsn, -1)::int8,
       coalesce((pg_catalog.to_jsonb(s) ->> 'two_phase')::bool, false)
FROM pg_catalog.pg_replication_slots s WHERE s.slot_name = %s
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

    def state(self) -> SlotState | None:
        """What the server reports of it; None when it does not exist."""
        row = self._connection.execute(_SLOT, [self.name]).fetchone()
        if row is None:
            return None
        plugin, database, pid, confirmed, *rest = row
        return SlotState(plugin, database, pid, None if confirmed is None else PostgresOffset(int(confirmed)), *rest)

    def create(self) -> PostgresOffset:
        """Create it; waits until the transactions running now have ended, and returns its consistent point."""
        query = "SELECT lsn - '0/0'::pg_lsn FROM pg_catalog.pg_create_logical_replication_slot(%s, 'pgoutput')"
        self._connection.execute("SET lock_timeout = 0")
        try:
            row = self._connection.execute(query, [self.name]).fetchone()
        finally:
            if not self._connection.closed:
                self._connection.execute("RESET lock_timeout")
        assert row is not None
        offset = PostgresOffset(int(row[0]))
        log.info("slot.created", slot=self.name, position=str(offset))
        return offset

    def drop(self) -> None:
        """Drop it; the server may remove the log then."""
        self._connection.execute("SELECT pg_catalog.pg_drop_replication_slot(%s)", [self.name])
        log.info("slot.dropped", slot=self.name)

    def begin_derived(self, context: DeltaContext) -> PostgresOffset:
        """The offset to start from when nothing was replicated yet, with a slot whose name is derived from the replicator's.

        That a slot is about to be created is stored first. So one that exists is left from a start that crashed, or from a
        former generation: it is created again, so that no old log has to be read. Of two starts of one name that look at the
        same moment and find no slot, one creates it and the other fails without that note: it never drops the first one's slot.

        Raises:
            NeedsUserError: RPL-3214 when this state has created none: another state of that name may read it.
            RetryableError: RPL-3104 when another session uses the slot, or begins with it.
            FencedError: When a newer run took over; its slot stays.
        """
        with self._begun_by_no_other():
            state = self.state()
            if state is not None:
                self._check_kind(state)
                self._check_free(state)
                if context.generation == 1 and not context.get_state(CREATED_KEY):
                    raise self._not_created()
            context.put_state(CREATED_KEY, self.name.encode())  # before the drop, since a superseded run fails here
            if state is not None:
                self.drop()
            try:
                return self.create()
            except (
                driver().errors.DuplicateObject
            ):  # by one that takes no lock: in another database, or of a former release
                context.put_state(CREATED_KEY, b"")
                raise _is_begun(self.name) from None

    @contextlib.contextmanager
    def _begun_by_no_other(self) -> Iterator[None]:
        """The server lets one session of the database into the block for each name of a slot; it ends with the session at the latest."""
        key = int.from_bytes(hashlib.sha256(f"replicator slot {self.name}".encode()).digest()[:8], "big", signed=True)
        row = self._connection.execute("SELECT pg_catalog.pg_try_advisory_lock(%s)", [key]).fetchone()
        if row is None or not row[0]:
            raise _is_begun(self.name)
        try:
            yield
        finally:
            if not self._connection.closed:
                self._connection.execute("SELECT pg_catalog.pg_advisory_unlock(%s)", [key])

    def _not_created(self) -> NeedsUserError:
        return NeedsUserError(
            f"the slot {self.name!r} exists, and this state has not created it: another replicator of this `namespace` and"
            " `name` keeps its state elsewhere, or the state was deleted",
            code="RPL-3214",
            hint="give one of the two another `name`; if the state was deleted: `replicator reset PIPELINE --lost-state`; if no"
            f" replicator reads it, drop it: SELECT pg_drop_replication_slot('{self.name}')",
        )

    def begin_given(self) -> PostgresOffset:
        """The same with a slot that the user has named: an existing one is used as it is, from its position."""
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
                hint=f"where the state is an old copy, put the newer state back; else {HEAL}; {DROP_SLOT}('{self.name}')",
            )
        self._check_end(offset)
        return state

    def log_end(self) -> int:
        """Where the server's log ends now."""
        row = self._connection.execute("SELECT pg_catalog.pg_current_wal_lsn() - '0/0'::pg_lsn").fetchone()
        return int(row[0]) if row else 0

    def _check_end(self, offset: PostgresOffset) -> None:
        end = PostgresOffset(self.log_end())
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


def _is_begun(name: str) -> RetryableError:
    return RetryableError(
        f"another replicator of this `namespace` and `name` begins with the slot {name!r} at this moment",
        code="RPL-3104",
        hint="stop the other run, or give one of the two another `name`",
    )
