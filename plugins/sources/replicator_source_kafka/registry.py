"""Which tables the topics hold, and what they look like: told by a look at some of their records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Final

from replicator_sdk.config import OutOfRange
from replicator_sdk.errors import NeedsUserError
from replicator_sdk.offset import Offset
from replicator_sdk.registry import TableRegistry, TableSummary
from replicator_sdk.schema import TableId, TableSchema
from replicator_source_kafka import quarantine
from replicator_source_kafka.client import EARLIEST, LATEST, Cluster
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.diagnosis import diagnosed
from replicator_source_kafka.fetch import records_behind
from replicator_source_kafka.formats import make_format
from replicator_source_kafka.formats.format import Decoded
from replicator_source_kafka.offset import KafkaOffset
from replicator_source_kafka.ranges import Place
from replicator_source_kafka.shape import reconcile
from replicator_source_kafka.start import check_begun, find_topics

_LAST: Final = 100
_PARTITIONS: Final = 8
_BYTES: Final = 1 << 20


class KafkaTableRegistry(TableRegistry):
    """Tables as the first and the last records of each topic show them; read at the first question.

    A table that only records in between tell of is not listed; it comes with its first record, like a new one. Before the
    very first record of all topics nothing can be listed, and asking is an error that asking again mends.
    """

    lists_all: ClassVar[bool] = False

    def __init__(self, config: KafkaConfig) -> None:
        self._config = config
        self._found: dict[TableId, tuple[TableSchema, int]] | None = None
        self._begins: dict[TableId, dict[Place, int]] = {}

    def list_tables(self) -> list[TableSummary]:
        """The tables found; their rows are the records of their topics, where each has one of its own."""
        return [
            TableSummary(table, len(schema.columns), records)
            for table, (schema, records) in sorted(self._tables().items())
        ]

    def describe_table(self, table: TableId) -> TableSchema:
        """One of them: all columns that any of the records had, as wide as any of them needs."""
        found = self._tables().get(table)
        if found is None:
            raise NeedsUserError(
                "no record of the topics is of this table",
                code="RPL-3970",
                table=str(table),
                hint="look at `replicator tables`; a table is known once its topic holds a record that tells its columns",
            )
        return found[0]

    def is_ahead(self, table: TableId, offset: Offset) -> bool:
        """Whether none of the table's topics has been read at `offset`; unknown where records name their tables."""
        self._tables()
        begins = self._begins.get(table)
        if not begins or self._config.table_field or not isinstance(offset, KafkaOffset):
            return False
        return all(offset.next.get(place, 0) <= begin for place, begin in begins.items())

    def _tables(self) -> Mapping[TableId, tuple[TableSchema, int]]:
        if self._found is None:
            with diagnosed("looking at the topics"), Cluster(self._config) as cluster:
                self._found = self._look(cluster)
        return self._found

    def _look(self, cluster: Cluster) -> dict[TableId, tuple[TableSchema, int]]:
        found: dict[TableId, tuple[TableSchema, int]] = {}
        topics = find_topics(cluster, self._config).values()
        all_places = [place for topic in topics for place in topic.places]
        all_begins = cluster.offsets(dict.fromkeys(all_places, EARLIEST))
        all_ends = cluster.offsets(dict.fromkeys(all_places, LATEST))
        check_begun(all_ends)
        for topic in topics:
            places = topic.places
            begins, ends = ({place: all_[place] for place in places} for all_ in (all_begins, all_ends))
            schemas: dict[TableId, TableSchema] = {}
            for decoded in samples(cluster, self._config, begins, ends):
                for part in sorted(decoded.parts, key=lambda part: int(part.index[0]) if len(part) else 0):
                    known = schemas.get(part.table)
                    schemas[part.table] = part.schema if known is None else reconcile(known, part.schema).schema
            count = sum(ends[place] - begins[place] for place in places) if len(schemas) == 1 else -1
            for table, schema in schemas.items():
                self._begins.setdefault(table, {}).update(begins)
                known = found[table][0] if table in found else None
                wide = schema if known is None else reconcile(known, schema).schema
                found[table] = (wide, count if known is None else -1)
        if self._config.on_poison == "quarantine":
            found[quarantine.TABLE] = (quarantine.SCHEMA, -1)
        return found


def samples(
    cluster: Cluster, config: KafkaConfig, begins: Mapping[Place, int], ends: Mapping[Place, int]
) -> Iterator[Decoded]:
    """The first and the last records of some partitions, decoded; older ones first."""
    decoder = make_format(config, config.out_of_range or OutOfRange.NULL)
    filled = sorted(place for place in begins if begins[place] < ends[place])[:_PARTITIONS]
    reached: dict[Place, int] = {}
    for since in (begins, {place: ends[place] - _LAST for place in filled}):
        for place in filled:
            begin = max(since[place], reached.get(place, 0))
            if begin < ends[place]:
                records = records_behind(cluster, place, begin, max_bytes=_BYTES)
                reached[place] = int(records.offset[-1]) + 1 if len(records) else ends[place]
                yield decoder.decode(records)
