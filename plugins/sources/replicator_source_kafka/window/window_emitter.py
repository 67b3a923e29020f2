"""Emits the events of a window: schema changes, then rows, then one commit."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from replicator_sdk.batch import ChangeBatch, Int64s, single_commit
from replicator_sdk.context import DeltaSourceContext
from replicator_sdk.errors import DataError, ReplicatorError
from replicator_sdk.event import DDLEvent, DDLOperation
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.source import EventEmitter
from replicator_source_kafka.client.fetch import RangeRecords
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.formats.flat.routing import route_tables
from replicator_source_kafka.formats.format import Format, Part, Poison
from replicator_source_kafka.offset import KafkaOffset
from replicator_source_kafka.records import Records
from replicator_source_kafka.tables import quarantine
from replicator_source_kafka.tables.known_tables import KnownTables, SchemaChange
from replicator_source_kafka.tables.merge_parts import empty_part, merged
from replicator_source_kafka.tables.schema_evolution import conform
from replicator_source_kafka.tables.topic_tables import TopicOrder, TopicTables
from replicator_source_kafka.window.event_numbers import EventNumbers
from replicator_source_kafka.window.spread_keys import keys_in_several


@dataclass(frozen=True, slots=True)
class _Decoded:
    """The decoded records of one partition.

    Attributes:
        records: The records.
        parts: Changes by table, each in the order of the records.
        poison: The records that cannot be read, unless they are among the parts, as rows of the quarantine table.
        tombstones: The indexes of records that are deletes of a table that they do not name.
    """

    records: Records
    parts: Sequence[Part]
    poison: Sequence[Poison]
    tombstones: Int64s


class WindowEmitter:
    """Decodes windows and emits their events. Used by the reader's thread.

    A window's events are its schema changes, then those of each partition, partition by partition. A schema change is numbered
    by its place among those found in the window, which are saved (`KnownTables`); any other event by the place of its record
    (`EventNumbers`). So no number depends on which other records there are.

    Args:
        decoder: The format of the records.
        tables: The known tables.
        emitter: Receives the events.
        context: Metrics.
        config: The source's settings.
    """

    def __init__(
        self,
        decoder: Format,
        tables: KnownTables,
        emitter: EventEmitter,
        context: DeltaSourceContext,
        config: KafkaConfig,
    ) -> None:
        self._format = decoder
        self._tables = tables
        self._emitter = emitter
        self._context = context
        self._config = config
        self._routed = route_tables(config.routes)
        self._keep_poison = config.on_poison == "quarantine"
        self._topic_tables = TopicTables()

    def emit_window(
        self,
        begin: KafkaOffset,
        end: KafkaOffset,
        pieces: Sequence[RangeRecords],
        through: datetime | None = None,
        *,
        width: int = 1,
    ) -> None:
        """Emit the window between two offsets; `pieces` are all its records, sorted by topic and partition, `through` as `valid_through` says it,
        `width` as `WindowLog` has it for the window.

        What is wrong with records of a table is raised after the window's schema changes, so that the table is known then.
        """
        decoded = [self._decode(piece.records) for piece in pieces]
        numbers = EventNumbers(begin, end, width, self._routed)
        self._emit_schemas(begin, end, decoded, numbers.of_schemas)
        for part in decoded:
            self._refuse(part, part.poison, end.topics)
        latest, order = -1, TopicOrder(end)
        grouped = [list(self._by_table(part, end.topics)) for part in decoded]
        spread = _with_spread_keys(grouped)
        for part, tables in zip(decoded, grouped, strict=True):
            for changes in tables:
                known = order.is_known(part.records.topic, changes.table)
                unordered = changes.table in spread or (not known and not changes.schema.primary_key)
                self._emit(begin, changes, numbers.of(part.records, changes.table), unordered=unordered)
                latest = max(latest, int(changes.timestamps.max(initial=-1)))
        valid = -1 if through is None else round(through.timestamp() * 1_000_000)
        self._emitter.emit_commits(single_commit(numbers.count, end, latest, valid_through=valid))

    def _decode(self, records: Records) -> _Decoded:
        decoded = self._format.decode(records)
        parts = list(decoded.parts)
        if self._keep_poison:
            parts += self._quarantined(records, decoded.poison)
        return _Decoded(records, parts, () if self._keep_poison else decoded.poison, decoded.tombstones)

    def _quarantined(self, records: Records, poison: Sequence[Poison]) -> list[Part]:
        if not poison:
            return []
        rows = quarantine.rows_of(records, poison)
        self._context.metrics.count("source.quarantined", len(rows))
        return [rows]

    def _refuse(self, decoded: _Decoded, poison: Sequence[Poison], topics: Collection[str]) -> None:
        """Raise the error of the first record that cannot be read, unless it is of a table whose errors concern no one."""
        if not poison:
            return
        of_topic = self._table_of(decoded, topics)
        for each in poison:
            table = each.table or of_topic
            if table is None or self._tables.concerns(table):
                raise quarantine.refuse(decoded.records, each, table)

    def _table_of(self, decoded: _Decoded, topics: Collection[str]) -> TableId | None:
        """The table of records that do not name it; None unless it is certain."""
        if self._config.routes_records:
            return None
        here = [part.table for part in decoded.parts]
        return self._topic_tables.table_of(decoded.records.topic, here, self._tables.names, topics)

    # ------------------------------------------------------------ schemas

    def _emit_schemas(self, begin: KafkaOffset, end: KafkaOffset, decoded: Sequence[_Decoded], most: int) -> None:
        """Emit the schema changes, which come before the rows of the window and are saved first; `most` can be numbered."""
        changes = self._tables.begin_window(end, most)
        try:
            for records, part in _first_seen(decoded):
                if len(part):  # a TRUNCATE has no key, and so does not contain the whole schema
                    changes += self._schema_changes(records, part)
        finally:  # also when one is refused: the tables of those before it are to be known then
            self._tables.save(end)
            for change in changes:
                self._emitter.emit(_event(begin, change))

    def _schema_changes(self, records: Records, part: Part) -> list[SchemaChange]:
        try:
            return self._tables.seen(part.schema)
        except ReplicatorError as error:
            error.position = error.position or records.position(_first(part))
            raise

    # ------------------------------------------------------------ rows

    def _deletes(self, decoded: _Decoded, topics: Collection[str]) -> list[Part]:
        """The deletes of tombstones that do not name their table."""
        if not len(decoded.tombstones):
            return []
        table = self._table_of(decoded, topics)
        known = None if table is None else self._tables.find(table)
        if known is None or not known.primary_key:
            return []
        poison: list[Poison] = []
        parts = self._format.deletes(decoded.records, decoded.tombstones, known, poison)
        poison.sort(key=lambda each: each.index)
        if self._keep_poison:
            return [*parts, *self._quarantined(decoded.records, poison)]
        self._refuse(decoded, poison, topics)
        return parts

    def _by_table(self, decoded: _Decoded, topics: Collection[str]) -> Iterator[Part]:
        """The changes of each table, with its current schema, in the order of the log."""
        grouped: dict[TableId, list[Part]] = {}
        for part in [*decoded.parts, *self._deletes(decoded, topics)]:
            known = self._tables.find(part.table)
            ours = None if known is None else self._conformed(part, known)
            if ours is not None:
                grouped.setdefault(part.table, []).append(ours)
        return (merged(parts) for table, parts in grouped.items() if self._tables.find(table) is not None)

    def _conformed(self, part: Part, known: TableSchema) -> Part | None:
        """A part with its table's current schema; None where that fails and concerns no one.

        Raises:
            DataError: When it fails, for a table that it concerns.
        """
        try:
            if part.error is not None:
                raise part.error
            return conform(part, known) if len(part) else empty_part(known, part.truncates)
        except DataError:
            if self._tables.concerns(part.table):
                raise
            return None

    def _emit(self, begin: KafkaOffset, part: Part, numbers: Int64s, *, unordered: bool) -> None:
        """Emit a table's changes, split at TRUNCATEs.

        An insert may be repeated: connectors deliver at least once, and may take another snapshot. So changes of tables
        with a key are marked as those of a snapshot, which makes their inserts upserts.
        """
        batch = ChangeBatch(
            part.schema,
            part.op,
            part.row,
            part.before,
            numbers[part.index],
            {name: mask for name, mask in part.unchanged.items() if name in part.schema},
            part.before_is_full,
            is_snapshot=bool(part.schema.primary_key),
            is_unordered=unordered,
        )
        start = 0
        for truncate in part.truncates.tolist():
            stop = int(np.searchsorted(part.index, truncate))
            self._emit_slice(batch, start, stop)
            ordinal = int(numbers[truncate])
            self._emitter.emit(DDLEvent(begin, DDLOperation.TRUNCATE_TABLE, part.table, part.schema, ordinal=ordinal))
            start = stop
        self._emit_slice(batch, start, len(batch))

    def _emit_slice(self, batch: ChangeBatch, start: int, stop: int) -> None:
        if start == stop:
            return
        cut = batch if stop - start == len(batch) else batch.slice(start, stop)
        self._emitter.emit_batch(cut)


def _event(begin: KafkaOffset, change: SchemaChange) -> DDLEvent:
    return DDLEvent(
        begin, change.operation, change.schema.table, change.schema, alters=change.alters, ordinal=change.place
    )


def _with_spread_keys(grouped: Sequence[Sequence[Part]]) -> frozenset[TableId]:
    """The tables of which a key has changes in several partitions of the window: the order of those is not known."""
    found: dict[TableId, list[Part]] = {}
    for part in (part for tables in grouped for part in tables if len(part) and part.schema.primary_key):
        found.setdefault(part.table, []).append(part)
    return frozenset(table for table, parts in found.items() if keys_in_several(parts))


def _first_seen(decoded: Sequence[_Decoded]) -> Iterator[tuple[Records, Part]]:
    """The parts in the order in which their schemas appear: by partition, then by record."""
    for one in decoded:
        for part in sorted(one.parts, key=_first):
            yield one.records, part


def _first(part: Part) -> int:
    return int(min(part.index[:1].tolist() + part.truncates[:1].tolist(), default=0))


def valid_through(pieces: Sequence[RangeRecords]) -> datetime | None:
    """The time up to which a window is complete: the earliest of the partitions' newest record times.

    None if a partition has no record with a time.
    """
    newest = [int(piece.records.timestamp.max(initial=-1)) for piece in pieces]
    least = min(newest, default=-1)
    return None if least < 0 else datetime.fromtimestamp(least / 1000, UTC)
