"""Removes the slot and the publication that the replicator created."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import structlog

from replicator_sdk.discovery.clean_up import Leftover, SourceCleanUp
from replicator_sdk.errors import NeedsUserError, RetryableError
from replicator_sdk.failpoint import failpoint, register
from replicator_source_postgres.connection import Endpoint, driver, quote_identifier, quote_literal, statement
from replicator_source_postgres.replication.identify_system import source_identity
from replicator_source_postgres.replication.ownership import Ownership
from replicator_source_postgres.replication.slot import Slot, SlotState

if TYPE_CHECKING:
    import psycopg

    from replicator_source_postgres.connection import Row

log = structlog.get_logger(__name__)
register("postgres.clean_up.slot", "postgres.clean_up.publication")

_FREE_SECONDS = 10.0
_SHOWN = 10
_FULL_IDENTITY = """
SELECT p.schemaname, p.tablename FROM pg_catalog.pg_publication_tables p
JOIN pg_catalog.pg_namespace n ON n.nspname = p.schemaname
JOIN pg_catalog.pg_class c ON c.relname = p.tablename AND c.relnamespace = n.oid
WHERE p.pubname = %s AND c.relreplident = 'f' ORDER BY 1, 2
"""


class PostgresCleanUp(SourceCleanUp):
    """Drops what has a derived name and was created by what is stored. What the pipeline names by `slot` and `publication` may be another program's, and stays.

    Args:
        endpoint: Where to connect.
        derived: The name that the replicator gives to both.
        ownership: Which of them the replicator's state has created; others of that name stay.
    """

    def __init__(self, endpoint: Endpoint, derived: str, ownership: Ownership) -> None:
        self._endpoint = endpoint
        self._ownership = ownership
        config = endpoint.config
        self._slot, self._owns_slot = config.slot or derived, config.slot is None
        self._publication, self._owns_publication = config.publication or derived, config.publication is None

    def expected(self) -> Sequence[Leftover]:
        """Slot and publication."""
        return [self._slot_left(""), self._publication_left("")]

    def identity(self) -> str:
        """The cluster's system identifier and the database's object identifier."""
        return source_identity(self._endpoint)

    def find(self) -> Sequence[Leftover]:
        """Those that exist, and the tables that log whole rows, which only people make them do."""
        with self._endpoint.session() as session:
            found = []
            state = self._slot_of(session).state()
            foreign = "" if state is None else self._foreign(state)
            if state is not None:
                found.append(self._slot_left(foreign, is_removable=not self._of_another_kind(state)))
            if identity := self._publication_of(session):
                whole = [f"{schema}.{table}" for schema, table in session.execute(_FULL_IDENTITY, [self._publication])]
                found.append(self._publication_left(self._foreign_publication(foreign, identity)))
                if whole:
                    more = f" and {len(whole) - _SHOWN} more" if len(whole) > _SHOWN else ""
                    found.append(
                        Leftover(
                            f"REPLICA IDENTITY FULL of {', '.join(whole[:_SHOWN])}{more}",
                            stays="it was set by people, and others may need it",
                        )
                    )
        return found

    def remove(self) -> None:
        """Drop the slot, by which the server holds its log, then the publication.

        Raises:
            RetryableError: RPL-3104 when a session still reads from the slot.
            NeedsUserError: RPL-3310 when the role may not drop the publication.
        """
        with self._endpoint.session() as session:
            state = self._slot_of(session).state()
            foreign = "" if state is None else self._foreign(state)
            if self._owns_slot and state is not None and not foreign:
                self._drop_slot(session)
            failpoint("postgres.clean_up.slot")
            identity = self._publication_of(session) if self._owns_publication else ""
            if identity and not self._foreign_publication(foreign, identity):
                self._drop_publication(session)
            failpoint("postgres.clean_up.publication")

    def _drop_slot(self, session: psycopg.Connection[Row]) -> None:
        slot, errors = self._slot_of(session), driver().errors
        deadline = time.monotonic() + _FREE_SECONDS
        while (state := slot.state()) is not None and not self._foreign(state):
            try:
                slot.drop()
            except errors.UndefinedObject:
                return
            except errors.ObjectInUse:
                if time.monotonic() >= deadline:
                    raise RetryableError(
                        f"the slot {self._slot!r} is in use by the server process {state.active_pid}",
                        code="RPL-3104",
                        hint="stop the other run; after a crash the server frees the slot within wal_sender_timeout",
                    ) from None
                time.sleep(0.3)

    def _drop_publication(self, session: psycopg.Connection[Row]) -> None:
        sql = f"DROP PUBLICATION IF EXISTS {quote_identifier(self._publication)}"
        try:
            session.execute(statement(sql))
        except driver().errors.InsufficientPrivilege as error:
            raise NeedsUserError(
                f"dropping the publication {self._publication!r}: {error.diag.message_primary}",
                code="RPL-3310",
                hint=f"let its owner run: {sql}; then give the command again, or give it with --keep-source",
            ) from None
        log.info("publication.dropped", publication=self._publication)

    def _slot_of(self, session: psycopg.Connection[Row]) -> Slot:
        return Slot(session, self._slot, self._endpoint.config.database)

    def _foreign(self, state: SlotState) -> str:
        """Why a slot of that name is not the replicator's; empty when it is."""
        return self._of_another_kind(state) or (self._ownership.of_slot(state) if self._owns_slot else "")

    def _of_another_kind(self, state: SlotState) -> str:
        if state.plugin != "pgoutput" or state.database != self._endpoint.config.database:
            return f"it is for plugin {state.plugin} in database {state.database}"
        return ""

    def _foreign_publication(self, foreign_slot: str, identity: str) -> str:
        """Why the publication is not the replicator's; empty when it is. That of another's slot is not, either."""
        return (foreign_slot if self._owns_slot else "") or self._ownership.of_publication(identity)

    def _publication_of(self, session: psycopg.Connection[Row]) -> str:
        """Its identity; empty when it does not exist."""
        query = "SELECT oid::int8 FROM pg_catalog.pg_publication WHERE pubname = %s"
        row = session.execute(query, [self._publication]).fetchone()
        return "" if row is None else f"{row[0]}"

    def _slot_left(self, foreign: str, *, is_removable: bool = True) -> Leftover:
        named = (
            ""
            if self._owns_slot
            else "the pipeline names it by `slot`, so that it may be another program's; it holds the server's log"
        )
        by_hand = f"SELECT pg_drop_replication_slot({quote_literal(self._slot)});"
        return Leftover(f"replication slot {self._slot}", by_hand if is_removable else "", foreign or named)

    def _publication_left(self, foreign: str) -> Leftover:
        named = (
            ""
            if self._owns_publication
            else "the pipeline names it by `publication`, so that it may be another program's"
        )
        sql = f"DROP PUBLICATION IF EXISTS {quote_identifier(self._publication)};"
        return Leftover(f"publication {self._publication}", sql, named or foreign)
