"""Reads and decodes one range of a partition, on an executor."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from replicator_sdk.batch import ChangeBatch
from replicator_sdk.config import OutOfRange
from replicator_sdk.distributed.partitioned_log import LogItem, LogPartition, ReadUntil, SchemaSeen
from replicator_sdk.errors import NeedsUserError, ReplicatorError, RetryableError
from replicator_sdk.schema import TableId, TableSchema
from replicator_source_kafka.client.cluster import Cluster
from replicator_source_kafka.client.diagnosis import RECORDS_GONE, diagnosed
from replicator_source_kafka.client.fetch import stream_range
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.formats import make_format
from replicator_source_kafka.formats.format import Decoded, Format, Part, Poison
from replicator_source_kafka.partition_range import PartitionRange
from replicator_source_kafka.records import Records
from replicator_source_kafka.tables import quarantine
from replicator_source_kafka.tables.merge_parts import merged
from replicator_source_kafka.tables.schema_evolution import conform, reconcile
from replicator_source_kafka.tables.topic_tables import TopicOrder, TopicTables
from replicator_source_kafka.topics.lost_records import only_table_of, table_lost


def _every_table(table: TableId) -> bool:  # noqa: ARG001 - as `KafkaRangeReader.selects`
    return True


def narrow_to(known: TableSchema, seen: TableSchema) -> TableSchema:
    """The schema of records without the columns that the pipeline does not select."""
    return seen.select(name for name in seen.names if name in known)


@dataclass(frozen=True)
class KafkaRangeReader:
    """A `LogPartitionReader` for partitions whose bounds are a `PartitionRange`. Every call opens a connection.

    Sequence numbers are Kafka's offsets plus one.

    Attributes:
        config: The source's settings.
        ids: Topic → id: records of another topic with the same name are refused.
        out_of_range: The pipeline's policy.
        order: Which tables have one order.
        narrowed: Tables of which only some columns are selected.
        known: Tables that were wanted once. When they are not any more, what is wrong with their records is no error.
        selects: Whether the pipeline selects a table. What is wrong with records of others is no error.
    """

    config: KafkaConfig
    ids: Mapping[str, str]
    out_of_range: OutOfRange
    order: TopicOrder
    narrowed: frozenset[TableId] = frozenset()
    known: frozenset[TableId] = frozenset()
    selects: Callable[[TableId], bool] = _every_table

    def __repr__(self) -> str:
        return f"KafkaRangeReader({self.config.bootstrap_servers!r})"

    def __call__(self, partition: LogPartition, tables: Mapping[TableId, TableSchema]) -> Iterator[LogItem]:
        """See `LogPartitionReader`; one block of one answer of the broker is in memory at a time."""
        try:
            yield from self._read(partition, tables)
        except RetryableError as error:
            if error.code != RECORDS_GONE:
                raise
            if self.config.names_tables:  # the driver decides, and stores it, that nothing more is read of the topic
                raise _deleted_meanwhile(partition.bounds) from error
            table = only_table_of(self.config, partition.bounds.topic, (), ())
            if table is None:
                raise
            if self.concerns(table, tables):
                raise _lost(table, partition.bounds) from error

    def concerns(self, table: TableId, wanted: Container[TableId]) -> bool:
        """Whether what is wrong with a table's records is an error.

        A table that is not known yet may be wanted: it is created with its first record that can be read.
        """
        return table in wanted or not (table in self.known or not self.selects(table))

    def _read(self, partition: LogPartition, tables: Mapping[TableId, TableSchema]) -> Iterator[LogItem]:
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
        """The changes of a block by table, or their schemas where those do not fit the known ones."""
        grouped: dict[TableId, list[Part]] = {}
        decoded = self._decoder.decode(records)
        for part in self._parts(records, decoded):
            grouped.setdefault(part.table, []).append(part)
        for table, parts in grouped.items():
            known = self._tables.get(table)
            if known is not None and any(len(part.truncates) for part in parts):
                raise _truncate_error(table, records)
            beyond = [p.schema for p in parts if not p.is_of_keys and (known is None or not self._fits(known, p))]
            if known is None or beyond or table in self._refused:
                self._refused.add(table)
                yield from map(SchemaSeen, dict.fromkeys(beyond))
                continue
            changes = merged([self._conformed(part, known) for part in parts])
            if len(changes):
                known_order = bool(known.primary_key) or self._reader.order.is_known(records.topic, table)
                yield _batch(changes, records, is_unordered=not known_order)

    def _parts(self, records: Records, decoded: Decoded) -> Iterable[Part]:
        poison, parts = list(decoded.poison), list(decoded.parts)
        of_topic = self._table_of(records, parts) if poison or len(decoded.tombstones) else None
        if len(decoded.tombstones):
            known = None if of_topic is None else self._tables.get(of_topic)
            if known is not None and known.primary_key:
                parts += self._decoder.deletes(records, decoded.tombstones, known, poison)
        if not poison:
            return parts
        if self._reader.config.on_poison != "quarantine":
            self._refuse(records, poison, of_topic)
            return parts
        return [*parts, quarantine.rows_of(records, sorted(poison, key=lambda p: p.index))]

    def _table_of(self, records: Records, parts: Iterable[Part]) -> TableId | None:
        """The table of records that do not name it; None unless it is certain."""
        if self._reader.config.routes_records:
            return None
        known = self._tables.keys() | self._reader.known
        return self._topic_tables.table_of(
            records.topic, [part.table for part in parts], known, self._reader.ids.keys()
        )

    def _refuse(self, records: Records, poison: Iterable[Poison], of_topic: TableId | None) -> None:
        """Raise the error of the first record that cannot be read, unless it is of a table that is not wanted."""
        for each in sorted(poison, key=lambda p: p.index):
            table = each.table or of_topic
            if table is None or self._reader.concerns(table, self._tables):
                raise quarantine.refuse(records, each, table)

    def _fits(self, known: TableSchema, part: Part) -> bool:
        """Whether a part fits the known schema.

        Raises:
            SchemaDriftError: When no schema fits both.
        """
        if part.schema == known:
            return True
        seen = narrow_to(known, part.schema) if part.table in self._reader.narrowed else part.schema
        return reconcile(known, seen).schema == known

    def _conformed(self, part: Part, known: TableSchema) -> Part:
        if part.error is not None:
            raise part.error
        return conform(self._narrowed(known, part), known)

    def _narrowed(self, known: TableSchema, part: Part) -> Part:
        if part.is_of_keys or part.table not in self._reader.narrowed:
            return part
        return conform(part, narrow_to(known, part.schema))


def _lost(table: TableId, wanted: PartitionRange) -> ReplicatorError:
    what = f"retention deleted offsets between {wanted.begin} and {wanted.end} that were not read"
    return table_lost(table, f"{wanted.topic}-{wanted.partition}", what)


def _deleted_meanwhile(wanted: PartitionRange) -> RetryableError:
    """The error of a topic that may hold several tables: the next attempt finds out which ones have lost records."""
    return RetryableError(
        f"retention deleted records of {wanted} while a slice of them was read",
        code="RPL-3987",
        hint="the attempt is repeated; raise retention.ms of the topic",
    )


def _batch(changes: Part, records: Records, *, is_unordered: bool) -> ChangeBatch:
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
        is_unordered=is_unordered,
    )


def _truncate_error(table: TableId, records: Records) -> ReplicatorError:
    """The error of a TRUNCATE: the order of changes in other partitions relative to it is unknown."""
    return NeedsUserError(
        "the table was truncated at the source, and its partitions are read independently of each other",
        code="RPL-3948",
        table=str(table),
        position=f"{records.topic}-{records.partition}",
        hint='set "distributed" to false if the topic has one partition, or skip TRUNCATEs at the connector (skipped.operations)',
    )
