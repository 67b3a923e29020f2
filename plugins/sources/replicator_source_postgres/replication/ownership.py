"""Which slot and publication of the derived name a replicator's own state has created, and whether another slot than before may be read."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import structlog

from replicator_sdk.discovery.clean_up import StoredState
from replicator_sdk.errors import NeedsUserError, RetryableError
from replicator_sdk.failpoint import failpoint, register
from replicator_source_postgres.connection import driver
from replicator_source_postgres.offset import PostgresOffset
from replicator_source_postgres.replication.log_continuity import STATE_KEY
from replicator_source_postgres.replication.slot import Slot, SlotState

if TYPE_CHECKING:
    import psycopg

    from replicator_sdk.context import DeltaSourceContext
    from replicator_source_postgres.connection import Row

register("postgres.slot.dropped", "postgres.slot.noted", "postgres.slot.created")
log = structlog.get_logger(__name__)

CREATED_KEY = "slot-created"
"""In the source's state: the slot that this state has created, or is about to create, and at which position. Without a position if an
earlier version wrote it, or the server had no second slot to spare; empty when another state created it first."""
_ELSEWHERE = "perhaps another replicator of this `namespace` and `name`, whose state is elsewhere, uses it"


class Ownership:
    """What is stored, compared with what is at the server.

    Args:
        stored: Of all generations, newest first.
        state_was_lost: Whether the oldest of them was begun after a lost state, so that nothing stored is no sign of another's.
    """

    def __init__(self, stored: Sequence[StoredState], *, state_was_lost: bool = False) -> None:
        self._stored = stored
        self._was_lost = state_was_lost

    def of_slot(self, state: SlotState) -> str:
        """Why the slot of the derived name may be another replicator's; empty when this one's state has created it.

        The position at which it was created is stored before, and no two slots of a server begin at the same one, since each creation
        writes to the log. Later a slot is confirmed up to an offset that was saved before, never beyond it, and one that is created later
        than the last save begins after it. So a slot that is confirmed beyond the saved offset belongs to another state, or to a newer one.
        """
        newest = next((one for one in self._stored if _has_begun(one)), None)
        if newest is None:
            return "" if self._was_lost else f"the replicator's state has not created it (RPL-3214): {_ELSEWHERE}"
        saved, confirmed, created = newest.get_offset(), state.confirmed, _created_at(newest)
        if confirmed is None or (created is not None and created.lsn == confirmed.lsn):
            return ""
        if isinstance(saved, PostgresOffset):
            beyond = f"it is confirmed up to {confirmed}, beyond the saved offset {saved}: {_ELSEWHERE}"
            return beyond if saved.lsn < confirmed.lsn else ""
        return (
            ""
            if created is None
            else f"it does not begin where the replicator has created one (RPL-3214): {_ELSEWHERE}"
        )

    def of_publication(self, identity: str) -> str:
        """The same of the publication with that object identifier."""
        known = [json.loads(text)["publication"] for one in self._stored if (text := one.get_state(STATE_KEY))]
        if known and identity not in known:
            return f"it was created again since the replicator used it: {_ELSEWHERE}"
        if not known and not any(map(_has_begun, self._stored)):
            return f"the replicator's state has not created it: {_ELSEWHERE}"
        return ""


def _has_begun(one: StoredState) -> bool:
    """Whether it has created a slot, or was about to; older versions of the source have stored an offset only."""
    return bool(one.get_state(CREATED_KEY)) or one.get_offset() is not None


def _created_at(one: StoredState) -> PostgresOffset | None:
    _, _, position = (one.get_state(CREATED_KEY) or b"").decode().partition(" ")
    return PostgresOffset.parse(position) if position else None


class DerivedSlot:
    """The slot whose name is derived from the replicator's, which a first start creates.

    Args:
        connection: Where `slot` is looked at.
        slot: The slot.
        context: Says what this state has created, and stores it.
    """

    def __init__(self, connection: psycopg.Connection[Row], slot: Slot, context: DeltaSourceContext) -> None:
        self._connection, self._slot, self._context = connection, slot, context

    def begin(self) -> PostgresOffset:
        """The offset to start from when nothing was replicated yet.

        One that exists is left from a start that crashed, or from a former generation: it is created again, so that no old log has to be
        read. Where it begins is stored first, so that it is known as this state's from then on. Of two starts of one name that look at the
        same moment and find no slot, one creates it and the other fails: it never drops the first one's slot.

        Raises:
            NeedsUserError: RPL-3214 when this state has not created the one that exists: another state of that name may read it.
            RetryableError: RPL-3104 when another session uses the slot, or begins with it.
            FencedError: When a newer run took over; its slot stays.
        """
        context, slot = self._context, self._slot
        with self._begun_by_no_other():
            state = slot.state()
            if state is not None:
                slot.check_usable(state)
                stored = [StoredState(context.get_offset, context.get_state), *context.former_states()]
                if Ownership(stored, state_was_lost=context.state_was_lost).of_slot(state):
                    raise _not_created(slot.name)
            self._note(context.get_state(CREATED_KEY) or b"")  # before the drop, since a superseded run fails here
            if state is not None:
                slot.drop()
                failpoint("postgres.slot.dropped")
            try:
                return self._create()
            except (
                driver().errors.DuplicateObject
            ):  # by one that takes no lock: in another database, or of a former release
                raise _is_begun(slot.name) from None

    def _create(self) -> PostgresOffset:
        try:
            with self._slot.prepared() as offset:
                self._note(f"{self._slot.name} {offset}".encode())
                failpoint("postgres.slot.noted")
                self._slot.create_prepared()
                failpoint("postgres.slot.created")
                return offset
        except driver().errors.ConfigurationLimitExceeded:
            return self._create_alone()

    def _create_alone(self) -> PostgresOffset:
        """Where the server has one slot to spare, and not two."""
        self._note(self._slot.name.encode())
        try:
            offset = self._slot.create()
        except driver().errors.DuplicateObject:
            self._note(b"")
            raise
        self._note(f"{self._slot.name} {offset}".encode())
        return offset

    def _note(self, value: bytes) -> None:
        self._context.put_state(CREATED_KEY, value)

    @contextlib.contextmanager
    def _begun_by_no_other(self) -> Iterator[None]:
        """The server lets one session of the database into the block for each name of a slot; it ends with the session at the latest."""
        name = self._slot.name
        key = int.from_bytes(hashlib.sha256(f"replicator slot {name}".encode()).digest()[:8], "big", signed=True)
        row = self._connection.execute("SELECT pg_catalog.pg_try_advisory_lock(%s)", [key]).fetchone()
        if row is None or not row[0]:
            raise _is_begun(name)
        try:
            yield
        finally:
            if not self._connection.closed:
                self._connection.execute("SELECT pg_catalog.pg_advisory_unlock(%s)", [key])


def check_other_slot(
    slot: Slot, former: Slot, offset: PostgresOffset, context: DeltaSourceContext, *, is_derived: bool
) -> None:
    """Check that the log may be read on by another slot than before.

    A slot never goes back, so one that is confirmed at or before `offset` has all that was committed after it. Where neither slot has
    that, this returns, and the log is found lost as ever.

    Args:
        slot: The slot that is to be read from now on.
        former: The slot by which the log was read up to `offset`.
        offset: The saved offset.
        context: Says which slots this state has created.
        is_derived: Whether the name of `slot` is the derived one, which any state of that name may have created.

    Raises:
        NeedsUserError: RPL-3220 when only `former` has the log after `offset`; RPL-3214 when this state has not created `slot`.
    """
    state = slot.state()
    if state is not None and is_derived and not _has_created(slot.name, context):
        raise NeedsUserError(
            f"without `slot` the log is read by the slot {slot.name!r}, which this state has not created: {_ELSEWHERE}",
            code="RPL-3214",
            hint=f"put `slot` back to {former.name!r}; if no other replicator reads the other one, write its name in `slot`",
        )
    if _covers(state, offset):
        log.warning("slot.changed", former=former.name, slot=slot.name, position=str(offset))
    elif _covers(former.state(), offset):
        why = "does not exist" if state is None else f"has the log after {state.confirmed or 'no position'} only"
        drop = "" if state is None else f"SELECT pg_drop_replication_slot('{slot.name}'); "
        copy = f"; or make the other one a copy of it: {drop}SELECT pg_copy_logical_replication_slot('{former.name}', '{slot.name}');"
        raise NeedsUserError(
            f"the log was read by the slot {former.name!r} up to {offset}, and the slot {slot.name!r} {why}: changes in between would be missing",
            code="RPL-3220",
            hint=f"put `slot` back to {former.name!r}{'' if is_derived else copy}",
        )


def _covers(state: SlotState | None, offset: PostgresOffset) -> bool:
    """Whether a slot has all that was committed after `offset`."""
    return state is not None and not state.is_lost and state.confirmed is not None and state.confirmed.lsn <= offset.lsn


def _has_created(name: str, context: DeltaSourceContext) -> bool:
    """Whether this state, or one of a former generation, has created the slot."""
    stored = [StoredState(context.get_offset, context.get_state), *context.former_states()]
    return any((one.get_state(CREATED_KEY) or b"").decode().partition(" ")[0] == name for one in stored)


def _not_created(name: str) -> NeedsUserError:
    return NeedsUserError(
        f"the slot {name!r} exists, and this state has not created it: another replicator of this `namespace` and `name` keeps its state"
        " elsewhere, or the state was deleted or is an old copy",
        code="RPL-3214",
        hint="give one of the two another `name`; if the state was deleted or is an old copy: `replicator reset PIPELINE --lost-state`; if no"
        f" replicator reads it, drop it: SELECT pg_drop_replication_slot('{name}')",
    )


def _is_begun(name: str) -> RetryableError:
    return RetryableError(
        f"another replicator of this `namespace` and `name` begins with the slot {name!r} at this moment",
        code="RPL-3104",
        hint="stop the other run, or give one of the two another `name`",
    )
