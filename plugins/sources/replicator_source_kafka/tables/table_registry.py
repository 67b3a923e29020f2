"""Lists the tables of the topics and their schemas, from samples of the records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Final

from replicator_sdk.config import OutOfRange
from replicator_sdk.discovery.table_registry import TableRegistry, TableSummary
from replicator_sdk.errors import NeedsUserError, SchemaDriftError
from replicator_sdk.offset import Offset
from replicator_sdk.schema import TableId, TableSchema
from replicator_source_kafka.client.cluster import EARLIEST, LATEST, Cluster
from replicator_source_kafka.client.diagnosis import diagnosed
from replicator_source_kafka.client.fetch import sample_records
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.formats import make_format
from replicator_source_kafka.formats.format import Decoded
from replicator_source_kafka.offset import KafkaOffset
from replicator_source_kafka.partition_range import TopicPartition
from replicator_source_kafka.tables import quarantine
from replicator_source_kafka.tables.schema_evolution import reconcile
from replicator_source_kafka.topics.selection import check_any_record, check_named, find_topics
from replicator_source_kafka.topics.start_position import first_read

_LAST: Final = 100
_PARTITIONS: Final = 8
_BYTES: Final = 1 << 20


class KafkaTableRegistry(TableRegistry):
    """The tables in the first and the last records of each topic, read once at the first call.

    Of a topic with records since `startFrom`, these only: older ones may have another key. A table with records only in between is not listed. It is created with its first record, like a new one. While no topic
    has a record, nothing can be listed, and calls raise a retryable error.
    """

    lists_all: ClassVar[bool] = False

    def __init__(self, config: KafkaConfig) -> None:
        self._config = config
        self._found: dict[TableId, tuple[TableSchema, int]] | None = None
        self._begins: dict[TableId, dict[TopicPartition, int]] = {}
        self._unfit: dict[TableId, SchemaDriftError] = {}

    def list_tables(self) -> list[TableSummary]:
        """The tables found. The count of rows is the count of records of topics with one table only."""
        return [
            TableSummary(table, len(schema.columns), records)
            for table, (schema, records) in sorted(self._tables().items())
        ]

    def describe_table(self, table: TableId) -> TableSchema:
        """The schema of one table: all columns of the sampled records, with types that hold all of them.

        Raises:
            SchemaDriftError: When no type holds all values of a column; the other tables can be described.
        """
        found = self._tables().get(table)
        if found is None:
            raise NeedsUserError(
                "the topics have no record of this table",
                code="RPL-3970",
                table=str(table),
                hint="see `replicator tables`; a table is known once its topic has a record with its columns",
            )
        if table in self._unfit:
            raise self._unfit[table]
        return found[0]

    def is_ahead(self, table: TableId, offset: Offset) -> bool:
        """Whether none of the table's topics has been read at `offset`; False if records name their tables."""
        self._tables()
        begins = self._begins.get(table)
        if not begins or self._config.routes_records or not isinstance(offset, KafkaOffset):
            return False
        return all(offset.next.get(tp, 0) <= begin for tp, begin in begins.items())

    def _tables(self) -> Mapping[TableId, tuple[TableSchema, int]]:
        if self._found is None:
            with diagnosed("reading the topics"), Cluster(self._config) as cluster:
                self._found = self._look(cluster)
        return self._found

    def _look(self, cluster: Cluster) -> dict[TableId, tuple[TableSchema, int]]:
        found: dict[TableId, tuple[TableSchema, int]] = {}
        existing = find_topics(cluster, self._config)
        if not existing:  # that one is missing stops the tables of that one only; see `PositionCheck`
            check_named(self._config, existing)
        topics = existing.values()
        all_partitions = [tp for topic in topics for tp in topic.partitions]
        all_begins = cluster.offsets(dict.fromkeys(all_partitions, EARLIEST))
        all_ends = cluster.offsets(dict.fromkeys(all_partitions, LATEST))
        check_any_record(all_ends)
        all_firsts = first_read(cluster, self._config, all_begins)
        for topic in topics:
            partitions = topic.partitions
            begins, ends = ({tp: all_[tp] for tp in partitions} for all_ in (all_begins, all_ends))
            schemas: dict[TableId, TableSchema] = {}
            firsts = {tp: all_firsts[tp] for tp in partitions}
            if all(firsts[tp] >= ends[tp] for tp in partitions):  # the older records say more than none
                firsts = begins
            for decoded in samples(cluster, self._config, firsts, ends):
                # A TRUNCATE has no key: a part of nothing else says nothing of the table's columns.
                for part in sorted(filter(len, decoded.parts), key=lambda part: int(part.index[0])):
                    schemas[part.table] = self._joined(schemas.get(part.table), part.schema)
            count = sum(ends[tp] - begins[tp] for tp in partitions) if len(schemas) == 1 else -1
            for table, schema in schemas.items():
                self._begins.setdefault(table, {}).update(begins)
                known = found[table][0] if table in found else None
                found[table] = (self._joined(known, schema), count if known is None else -1)
        if self._config.on_poison == "quarantine":
            found[quarantine.TABLE] = (quarantine.SCHEMA, -1)
        return found

    def _joined(self, known: TableSchema | None, seen: TableSchema) -> TableSchema:
        """The union of both; `known` where no table holds both, which `describe_table` says."""
        if known is None:
            return seen
        try:
            return reconcile(known, seen).schema
        except SchemaDriftError as error:
            self._unfit[seen.table] = error
            return known


def samples(
    cluster: Cluster, config: KafkaConfig, begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> Iterator[Decoded]:
    """The first and the last records of some partitions, decoded; the first ones come first."""
    decoder = make_format(config, config.out_of_range or OutOfRange.NULL)
    filled = sorted(tp for tp in begins if begins[tp] < ends[tp])[:_PARTITIONS]
    reached: dict[TopicPartition, int] = {}
    for since in (begins, {tp: ends[tp] - _LAST for tp in filled}):
        for tp in filled:
            begin = max(since[tp], reached.get(tp, 0))
            if begin < ends[tp]:
                records = sample_records(cluster, tp, begin, max_bytes=_BYTES)
                reached[tp] = int(records.offset[-1]) + 1 if len(records) else ends[tp]
                yield decoder.decode(records)
