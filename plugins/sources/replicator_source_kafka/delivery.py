"""From the records of a window to the emitter: numbered, told of schemas first, ended by one commit."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from replicator_sdk.batch import ChangeBatch, Int64s, single_commit
from replicator_sdk.context import DeltaSourceContext
from replicator_sdk.errors import ReplicatorError
from replicator_sdk.event import DDLEvent, DDLOperation
from replicator_sdk.schema import TableId
from replicator_sdk.source import EventEmitter
from replicator_source_kafka import quarantine
from replicator_source_kafka.fetch import Piece
from replicator_source_kafka.formats.format import Format, Part, Poison
from replicator_source_kafka.known_tables import KnownTables
from replicator_source_kafka.merge import empty_part, merged
from replicator_source_kafka.offset import KafkaOffset
from replicator_source_kafka.records import Records
from replicator_source_kafka.shape import conform
from replicator_source_kafka.topic_tables import TopicTables


@dataclass(frozen=True, slots=True)
class _Decoded:
    """What the records of one partition say.

    Attributes:
        records: The records.
        parts: Changes by table, each in the order of the records.
        tombstones: Which of the records are deletes of a table that they do not name.
        ranks: For each record how many events come before it in its partition; one more for all of them.
    """

    records: Records
    parts: Sequence[Part]
    tombstones: Int64s
    ranks: Int64s


class Delivery:
    """Decodes windows and emits what they hold. Used by the reader's thread.

    Every record that changes a row, empties a table or goes to quarantine is an event; a window's events are its schema
    changes, then those of each partition, partition by partition. So numbers do not depend on who decodes what, or when.

    Args:
        decoder: The format of the records.
        tables: What is known of tables.
        emitter: Where events go.
        context: Metrics.
        keep_poison: Whether records that cannot be read go to quarantine.
    """

    def __init__(
        self,
        decoder: Format,
        tables: KnownTables,
        emitter: EventEmitter,
        context: DeltaSourceContext,
        *,
        keep_poison: bool,
    ) -> None:
        self._format = decoder
        self._tables = tables
        self._emitter = emitter
        self._context = context
        self._keep_poison = keep_poison
        self._topic_tables = TopicTables()

    def deliver(self, begin: KafkaOffset, end: KafkaOffset, pieces: Sequence[Piece]) -> None:
        """Emit the window between two offsets, which `pieces` are all the records of, by topic and partition."""
        decoded = [self._decode(piece.records) for piece in pieces]
        base = self._emit_schemas(begin, decoded)
        self._tables.save(end)
        latest = -1
        for part in decoded:
            for changes in self._by_table(part, end.topics):
                self._emit(begin, changes, base + part.ranks)
                latest = max(latest, int(changes.timestamps.max(initial=-1)))
            base += int(part.ranks[-1])
        self._emitter.emit_commits(single_commit(base, end, latest))

    def _decode(self, records: Records) -> _Decoded:
        decoded = self._format.decode(records)
        parts = list(decoded.parts)
        parts += self._quarantined(records, decoded.poison)
        is_event = np.zeros(len(records), np.int64)
        for part in parts:
            is_event[part.index] = 1
            is_event[part.truncates] = 1
        is_event[decoded.tombstones] = 1
        return _Decoded(
            records, parts, decoded.tombstones, np.concatenate([np.zeros(1, np.int64), np.cumsum(is_event)])
        )

    def _quarantined(self, records: Records, poison: Sequence[Poison]) -> list[Part]:
        if not poison:
            return []
        if not self._keep_poison:
            raise quarantine.refuse(records, poison[0])
        self._context.metrics.count("source.quarantined", len(poison))
        return [quarantine.rows_of(records, poison)]

    # ------------------------------------------------------------ schemas

    def _emit_schemas(self, begin: KafkaOffset, decoded: Sequence[_Decoded]) -> int:
        """Tell what changed, before the rows of the window; returns how many events that was."""
        told = 0
        for records, part in _first_seen(decoded):
            if not len(part):
                continue  # a record that empties a table has no key, and so tells only half of the schema
            try:
                changes = self._tables.seen(part.schema)
            except ReplicatorError as error:
                error.position = error.position or records.place(_first(part))
                raise
            for change in changes:
                event = DDLEvent(begin, change.operation, part.table, change.schema, alters=change.alters, ordinal=told)
                self._emitter.emit(event)
                told += 1
        return told

    # ------------------------------------------------------------ rows

    def _deletes(self, decoded: _Decoded, topics: Collection[str]) -> list[Part]:
        """What tombstones delete."""
        if not len(decoded.tombstones):
            return []
        here = [part.table for part in decoded.parts]
        table = self._topic_tables.table_of(decoded.records.topic, here, self._tables.names, topics)
        known = None if table is None else self._tables.find(table)
        if known is None or not known.primary_key:
            return []
        poison: list[Poison] = []
        parts = self._format.deletes(decoded.records, decoded.tombstones, known, poison)
        return [*parts, *self._quarantined(decoded.records, sorted(poison, key=lambda p: p.index))]

    def _by_table(self, decoded: _Decoded, topics: Collection[str]) -> Iterator[Part]:
        """The changes of each table in its schema of now, and in order."""
        grouped: dict[TableId, list[Part]] = {}
        for part in [*decoded.parts, *self._deletes(decoded, topics)]:
            known = self._tables.find(part.table)
            if known is not None:
                ours = conform(part, known) if len(part) else empty_part(known, part.truncates)
                grouped.setdefault(part.table, []).append(ours)
        return map(merged, grouped.values())

    def _emit(self, begin: KafkaOffset, part: Part, ranks: Int64s) -> None:
        """Emit a table's changes, cut where it was emptied.

        A key's insert may repeat: connectors deliver at least once, and snapshot anew. So changes of tables with a key
        are marked like a snapshot's, which makes their inserts upserts.
        """
        batch = ChangeBatch(
            part.schema,
            part.op,
            part.row,
            part.before,
            ranks[part.index],
            {name: mask for name, mask in part.unchanged.items() if name in part.schema},
            part.before_is_full,
            is_snapshot=bool(part.schema.primary_key),
        )
        start = 0
        for truncate in part.truncates.tolist():
            stop = int(np.searchsorted(part.index, truncate))
            self._emit_slice(batch, start, stop)
            ordinal = int(ranks[truncate])
            self._emitter.emit(DDLEvent(begin, DDLOperation.TRUNCATE_TABLE, part.table, part.schema, ordinal=ordinal))
            start = stop
        self._emit_slice(batch, start, len(batch))

    def _emit_slice(self, batch: ChangeBatch, start: int, stop: int) -> None:
        if start == stop:
            return
        cut = batch if stop - start == len(batch) else batch.slice(start, stop)
        self._emitter.emit_batch(cut)


def _first_seen(decoded: Sequence[_Decoded]) -> Iterator[tuple[Records, Part]]:
    """The parts in the order their schemas appear: by partition, then record."""
    for one in decoded:
        for part in sorted(one.parts, key=_first):
            yield one.records, part


def _first(part: Part) -> int:
    return int(min(part.index[:1].tolist() + part.truncates[:1].tolist(), default=0))


def valid_through(pieces: Sequence[Piece]) -> datetime | None:
    """Up to which time a window is whole: of all partitions that took part the least of their newest records' times.

    None when a partition has no record with a time.
    """
    newest = [int(piece.records.timestamp.max(initial=-1)) for piece in pieces]
    least = min(newest, default=-1)
    return None if least < 0 else datetime.fromtimestamp(least / 1000, UTC)
