"""Finds where a first start begins in a slot that the administrator has made beforehand, and which columns the tables had there.

A slot keeps the catalogue of its position, but shows it to no query. What the catalogue shows now is compared with the slot's
`catalog_xmin`: a row of it that an older transaction wrote was so at the slot's position already. And the log announces the columns
that a table has before its first change there.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from replicator_sdk.errors import HistoryLostError, NeedsUserError
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.source import StartFrom
from replicator_source_postgres.connection import Endpoint
from replicator_source_postgres.offset import PostgresOffset, lsn_text
from replicator_source_postgres.pgoutput.message import Relation, parse_relation
from replicator_source_postgres.pgoutput.window import Window
from replicator_source_postgres.replication.replication_stream import ReplicationStream, StatusThread
from replicator_source_postgres.schema.schema_tracker import narrow
from replicator_source_postgres.types.mapping import standard_type

if TYPE_CHECKING:
    from replicator_source_postgres.catalogue import Catalogue, TableFacts
    from replicator_source_postgres.replication.slot import Slot, SlotState

_LSN: Final = re.compile(r"[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}")
_MESSAGES, _BYTES, _STATUS_SECONDS, _WAIT_SECONDS = 65_536, 16 << 20, 5.0, 0.05
_PUBLISHED = """
SELECT age(p.xmin) > age(s.catalog_xmin), p.puballtables, coalesce(
         (SELECT age(r.xmin) > age(s.catalog_xmin) FROM pg_catalog.pg_publication_rel r
          WHERE r.prpubid = p.oid AND r.prrelid = %s), false)
FROM pg_catalog.pg_publication p, pg_catalog.pg_replication_slots s WHERE p.pubname = %s AND s.slot_name = %s
"""
_ALTERED = """
SELECT coalesce(bool_or(a.attisdropped), false), coalesce(bool_or(a.attgenerated <> ''), false),
       EXISTS (SELECT 1 FROM pg_catalog.pg_index i WHERE i.indrelid = %(oid)s AND i.indisprimary
               AND age(i.xmin) <= age(s.catalog_xmin))
FROM pg_catalog.pg_replication_slots s
LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = %(oid)s AND a.attnum > 0 AND age(a.xmin) <= age(s.catalog_xmin)
WHERE s.slot_name = %(slot)s GROUP BY s.catalog_xmin
"""


@dataclass(slots=True)
class _Seen:
    """What the log announces of one table.

    Attributes:
        first: The first announcement.
        identities: All replica identities.
        names: All names.
        since: Where the transaction commits that has the last announcement: a start there has the columns of now.
    """

    first: Relation
    identities: set[str] = field(default_factory=set)
    names: set[tuple[str, str]] = field(default_factory=set)
    since: int = 0


@dataclass(frozen=True, slots=True)
class ChosenStart:
    """A first start in a slot that exists.

    Attributes:
        endpoint: The server.
        slot: The slot, over an SQL connection.
        publication: The publication's name.
    """

    endpoint: Endpoint
    slot: Slot
    publication: str

    # ------------------------------------------------------------ the position

    def find(self, start: StartFrom) -> PostgresOffset:
        """The offset that `start` names; changes nothing.

        Raises:
            NeedsUserError: RPL-3215 for what is no position, RPL-3216 when it is after the log's end, RPL-3217 without a slot.
            HistoryLostError: RPL-3218 when the slot does not reach back to it.
        """
        if start.time is None and not _LSN.fullmatch(start.offset):
            raise NeedsUserError(
                f"{start.offset[:80]!r} is no position of a PostgreSQL log",
                code="RPL-3215",
                hint='write `"from": {"offset": "0/16B3748"}`, as pg_current_wal_lsn() shows it',
            )
        state, end = self._state(start), self.slot.log_end()
        assert state.confirmed is not None
        if start.time is not None:
            if start.time > datetime.now(UTC):
                raise _too_late(start, "that moment has not come", end)
            return self._before(start, start.time, state.confirmed, end)
        offset = PostgresOffset.parse(start.offset)
        if offset.lsn > self.slot.next_record():
            raise _too_late(start, "the server's log ends before it", end)
        if offset.lsn < state.confirmed.lsn:
            raise self._not_reached(start, state.confirmed)
        return offset

    def _state(self, start: StartFrom) -> SlotState:
        state = self.slot.state() if self.slot.name else None
        if state is None:
            which = (
                f"the slot {self.slot.name!r} does not exist" if self.slot.name else "the source's `slot` names none"
            )
            raise NeedsUserError(
                f"no run can begin at {start}: {which}, and one that is created now begins now",
                code="RPL-3217",
                hint="name a slot in the source's `slot` that was created at or before that position; or remove `from`",
            )
        self.slot.check_usable(state)
        if state.is_lost:
            raise self._not_reached(start, None)
        return state

    def _before(self, start: StartFrom, moment: datetime, first: PostgresOffset, end: int) -> PostgresOffset:
        """The place before the first transaction that was committed at `moment` or later."""
        at, is_first = moment.timestamp() * 1_000_000, True
        for window in self._windows(first, end):
            for lsn, timestamp in window.begin_records():
                if timestamp >= at and is_first:
                    raise self._not_reached(start, first)
                if timestamp >= at:
                    return PostgresOffset(lsn)
                is_first = False
        if is_first:  # what was committed between that moment and the slot's creation is not known
            raise self._not_reached(start, first)
        return PostgresOffset(end)

    def _windows(self, start: PostgresOffset, end: int) -> Iterator[Window]:
        """What the slot has between two positions; confirms nothing."""
        stream = ReplicationStream.open(self.endpoint, self.slot.name, self.publication, start)
        messages: list[memoryview | bytes] = []
        with contextlib.closing(stream), StatusThread(stream, lambda: PostgresOffset(0), _STATUS_SECONDS):
            while True:
                stream.receive(messages, _MESSAGES, _BYTES, _WAIT_SECONDS)
                if messages:
                    yield Window(messages)
                    messages.clear()
                elif stream.wal_end >= end:
                    return

    def _not_reached(self, start: StartFrom, confirmed: PostgresOffset | None) -> HistoryLostError:
        earliest = (
            "a slot that was created before it" if confirmed is None else f'`"from": {{"offset": "{confirmed}"}}`'
        )
        return HistoryLostError(
            f"the slot {self.slot.name!r} does not have the log from {start} on",
            code="RPL-3218",
            hint=f"begin at {earliest}" + ("" if confirmed is None else ", the earliest position that it has"),
        )

    # ------------------------------------------------------------ the tables there

    def tables_at(
        self, catalogue: Catalogue, offset: PostgresOffset, tables: Sequence[TableSchema], narrowed: Collection[TableId]
    ) -> dict[TableId, TableSchema]:
        """The tables as they were at `offset`.

        Raises:
            NeedsUserError: RPL-3219 for a table whose columns there are not known, or that the publication may not have had.
        """
        facts = {schema.table: catalogue.find(schema.table) for schema in tables}
        for schema in tables:
            self._check_published(catalogue, schema.table, facts[schema.table])
        seen = self._announced(offset)
        found = {}
        for schema in tables:
            table, there = schema.table, facts[schema.table]
            assert there is not None
            self._check_name(table, there, seen)
            former = self._former(catalogue, table, there, seen.get(there.oid))
            found[table] = _narrowed(former, schema, seen.get(there.oid)) if table in narrowed else former
        return found

    def _check_published(self, catalogue: Catalogue, table: TableId, facts: TableFacts | None) -> None:
        """Check that the publication has had the table since before the slot's position: it is looked up as of each change."""
        oid = 0 if facts is None else facts.oid
        query = catalogue.connection.execute(_PUBLISHED, [oid, self.publication, self.slot.name])
        is_old, has_all, has_table = query.fetchone() or (False, False, False)
        if facts is None or not is_old or not (has_all or has_table):
            raise _unknown(
                table,
                f"the publication {self.publication!r} may not have had it since the slot was created",
                "begin now (remove `from`), or in a new slot: first add the table to the publication, then create the slot once no"
                " transaction and no other slot is older (SELECT slot_name, age(catalog_xmin) FROM pg_replication_slots)",
            )

    def _announced(self, offset: PostgresOffset) -> dict[int, _Seen]:
        seen: dict[int, _Seen] = {}
        commit = 0
        for window in self._windows(offset, self.slot.log_end()):
            for index in window.where(b"BR").tolist():
                payload = window.payload(index)
                if payload[:1] == b"B":
                    commit = int.from_bytes(payload[1:9], "big")
                    continue
                relation = parse_relation(payload)
                one = seen.setdefault(relation.oid, _Seen(relation))
                one.identities.add(relation.identity)
                one.names.add((relation.schema, relation.table))
                one.since = commit
        return seen

    def _check_name(self, table: TableId, facts: TableFacts, seen: dict[int, _Seen]) -> None:
        name, own = (table.schema, table.table), seen.get(facts.oid)
        later = "begin now: remove `from`" if own is None else _from(own.since)
        if any(name in one.names for oid, one in seen.items() if oid != facts.oid):
            raise _unknown(table, "another table had its name", later)
        if own is not None and own.names != {name}:
            raise _unknown(table, "it had another name", later)
        if own is not None and own.identities != {facts.identity}:
            raise _unknown(table, "it had another replica identity", later)

    def _former(self, catalogue: Catalogue, table: TableId, facts: TableFacts, seen: _Seen | None) -> TableSchema:
        """The columns that the log announces, in the places of those of now: numbers are given in order, and never twice."""
        now = catalogue.schema(facts, table)
        values = {"oid": facts.oid, "slot": self.slot.name}
        is_dropped, is_generated, has_other_key = catalogue.connection.execute(_ALTERED, values).fetchone() or (1, 1, 1)
        if seen is None:
            return now  # the log has no row of it
        if is_dropped or is_generated or (has_other_key and seen.first.identity != "d"):
            why = "a column was dropped or generated since the slot was created, or its key was replaced"
            raise _unknown(table, why, "begin in a slot that is created later, or now: remove `from`")
        announced = [column for column in seen.first.columns if column.name not in facts.generated]
        columns = tuple(
            replace(
                column,
                name=a.name,
                type=standard_type(a.type_oid, a.typmod, catalogue.type_of),
                source_type=catalogue.type_name(a.type_oid, a.typmod),
            )
            for a, column in zip(announced, now.columns, strict=False)
        )
        names = dict(zip(now.names, (column.name for column in columns), strict=False))
        key = tuple(names[name] for name in now.primary_key if name in names)
        if seen.first.identity != "f" and {c.name for c in announced if c.is_key} != set(key):
            raise _unknown(table, "it had another key", _from(seen.since))
        return TableSchema(table, columns, key, now.source_id)


def _narrowed(former: TableSchema, schema: TableSchema, seen: _Seen | None) -> TableSchema:
    """The selected columns, whatever they were called."""
    there = {column.source_id for column in former.columns}
    if any(column.source_id not in there for column in schema.columns):
        raise _unknown(
            schema.table, "it did not have all columns that the pipeline selects", _from(seen.since if seen else 0)
        )
    return narrow(former, schema)


def _from(lsn: int) -> str:
    return f'begin at `"from": {{"offset": "{lsn_text(lsn)}"}}`, from where the log has it as it is now'


def _too_late(start: StartFrom, why: str, end: int) -> NeedsUserError:
    return NeedsUserError(
        f"no run can begin at {start}: {why}",
        code="RPL-3216",
        hint=f'`snapshot.from`: give "{lsn_text(end)}", or an earlier position; without `from` the pipeline begins now',
    )


def _unknown(table: TableId, why: str, instead: str) -> NeedsUserError:
    return NeedsUserError(
        f"the table cannot begin there: {why}",
        code="RPL-3219",
        table=str(table),
        hint=f"{instead}; or leave it out of `tables`",
    )
