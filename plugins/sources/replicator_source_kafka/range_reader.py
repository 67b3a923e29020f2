"""Reads one range of a partition and decodes it: the part of the source that runs on executors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from replicator_sdk.batch import ChangeBatch
from replicator_sdk.config import OutOfRange
from replicator_sdk.distributed_log import LogItem, LogPartition, ReadUntil, SchemaSeen
from replicator_sdk.errors import NeedsUserError, ReplicatorError
from replicator_sdk.schema import TableId, TableSchema
from replicator_source_kafka import quarantine
from replicator_source_kafka.client import Cluster
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.diagnosis import diagnosed
from replicator_source_kafka.fetch import stream_range
from replicator_source_kafka.formats import make_format
from replicator_source_kafka.formats.format import Decoded, Format, Part
from replicator_source_kafka.merge import merged
from replicator_source_kafka.ranges import PartitionRange
from replicator_source_kafka.records import Records
from replicator_source_kafka.shape import conform, reconcile
from replicator_source_kafka.topic_tables import TopicTables


def narrow_to(known: TableSchema, seen: TableSchema) -> TableSchema:
    """A schema that records have without the columns the pipeline leaves out."""
    return seen.select(name for name in seen.names if name in known)


@dataclass(frozen=True)
class KafkaRangeReader:
    """A `LogPartitionReader`: a partition's bounds are a `PartitionRange`. Every call has a connection of its own.

    Sequence numbers are Kafka's offsets plus one.

    Attributes:
        config: The source's settings.
        ids: Topic → id: records of another topic under the same name are refused.
        out_of_range: The pipeline's policy.
        narrowed: Tables of which only some columns are wanted.
    """

    config: KafkaConfig
    ids: Mapping[str, str]
    out_of_range: OutOfRange
    narrowed: frozenset[TableId] = frozenset()

    def __repr__(self) -> str:
        return f"KafkaRangeReader({self.config.bootstrap_servers!r})"

    def __call__(self, partition: LogPartition, tables: Mapping[TableId, TableSchema]) -> Iterator[LogItem]:
        """See `LogPartitionReader`; in memory is one block of one answer of the broker at a time."""
        wanted: PartitionRange = partition.bounds
        decoder = make_format(self.config, self.out_of_range)
        work = _Decoding(self, decoder, tables)
        newest = -1
        with diagnosed(f"reading {wanted}"), Cluster(self.config) as cluster:
            cluster.pin(self.ids)
            for records in stream_range(cluster, wanted, partition.estimated_bytes):
                if len(records):
                    yield from work.decode(records)
                    newest = max(newest, int(records.timestamp.max()))
        if newest >= 0:
            yield ReadUntil(newest * 1000)


class _Decoding:
    """One range's records, block by block."""

    def __init__(self, reader: KafkaRangeReader, decoder: Format, tables: Mapping[TableId, TableSchema]) -> None:
        self._reader = reader
        self._decoder = decoder
        self._tables = tables
        self._refused: set[TableId] = set()
        self._topic_tables = TopicTables()

    def decode(self, records: Records) -> Iterator[LogItem]:
        """Changes of the block, table by table, or the schemas that they have beyond what is known."""
        grouped: dict[TableId, list[Part]] = {}
        decoded = self._decoder.decode(records)
        for part in self._parts(records, decoded):
            grouped.setdefault(part.table, []).append(part)
        for table, parts in grouped.items():
            known = self._tables.get(table)
            if known is not None and any(len(part.truncates) for part in parts):
                raise _emptied(table, records)
            beyond = [p.schema for p in parts if not p.is_of_keys and (known is None or not self._fits(known, p))]
            if known is None or beyond or table in self._refused:
                self._refused.add(table)
                yield from map(SchemaSeen, dict.fromkeys(beyond))
                continue
            changes = merged([conform(self._narrowed(known, part), known) for part in parts])
            if len(changes):
                yield _batch(changes, records)

    def _parts(self, records: Records, decoded: Decoded) -> Iterable[Part]:
        poison, parts = list(decoded.poison), list(decoded.parts)
        if len(decoded.tombstones):
            here = [part.table for part in parts]
            table = self._topic_tables.table_of(records.topic, here, self._tables.keys(), self._reader.ids.keys())
            known = None if table is None else self._tables.get(table)
            if known is not None and known.primary_key:
                parts += self._decoder.deletes(records, decoded.tombstones, known, poison)
        if not poison:
            return parts
        if self._reader.config.on_poison != "quarantine":
            raise quarantine.refuse(records, poison[0])
        return [*parts, quarantine.rows_of(records, sorted(poison, key=lambda p: p.index))]

    def _fits(self, known: TableSchema, part: Part) -> bool:
        """Whether a part can be delivered under the schema that is known.

        Raises:
            SchemaDriftError: When no schema fits both.
        """
        if part.schema == known:
            return True
        seen = narrow_to(known, part.schema) if part.table in self._reader.narrowed else part.schema
        return reconcile(known, seen).schema == known

    def _narrowed(self, known: TableSchema, part: Part) -> Part:
        if part.is_of_keys or part.table not in self._reader.narrowed:
            return part
        return conform(part, narrow_to(known, part.schema))


def _batch(changes: Part, records: Records) -> ChangeBatch:
    return ChangeBatch(
        changes.schema,
        changes.op,
        changes.row,
        changes.before,
        np.arange(len(changes)),
        changes.unchanged,
        changes.before_is_full,
        sequence_numbers=records.offset[changes.index] + 1,
        timestamps=changes.timestamps,
    )


def _emptied(table: TableId, records: Records) -> ReplicatorError:
    """Of several partitions nobody knows which changes came before a TRUNCATE in one of them."""
    return NeedsUserError(
        "the table was emptied (TRUNCATE) at the source, and its partitions are read independently of each other",
        code="RPL-3948",
        table=str(table),
        position=f"{records.topic}-{records.partition}",
        hint='set "distributed" to false for a topic of one partition, or leave it out at the connector (skipped.operations)',
    )
