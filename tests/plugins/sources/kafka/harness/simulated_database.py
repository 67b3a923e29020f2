"""A database for the conformance kit whose changes are written to Kafka; database and connector are simulated."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal as Number
from typing import Any, Final

from replicator_sdk import DDLEvent, DMLOperation, TableId, TableSchema
from replicator_sdk.datatype import Array, DataType, Decimal
from replicator_sdk.testing.histories.history import Step
from replicator_sdk.testing.histories.reference import RowChange
from replicator_sdk.testing.histories.values import Row
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from replicator_sdk.testing.simulate import Simulator
from replicator_sdk.testing.source_suite import SourceSystem
from replicator_source_kafka import KafkaConfig, KafkaSource
from tests.plugins.sources.kafka.harness.connect_json import envelope, key_of
from tests.services.kafka.broker import KafkaBroker
from tests.services.kafka.client import KafkaClient

_SAMPLES: Final[Mapping[str, Any]] = {
    "bool": True,
    "int8": 1,
    "int16": 1,
    "int32": 1,
    "int64": 1,
    "float32": 1.5,
    "float64": 1.5,
    "string": "x",
    "binary": b"x",
    "date": date(2000, 1, 1),
    "time": time(1),
    "timestamp": datetime(2000, 1, 1),
    "instant": datetime(2000, 1, 1, tzinfo=UTC),
    "json": "{}",
    "uuid": "00000000-0000-0000-0000-000000000001",
}


def source_of(broker: KafkaClient, **settings: Any) -> KafkaSource:
    """The source on a broker, with short waits."""
    usual = {"bootstrapServers": broker.bootstrap, "metadataIntervalSeconds": 0.2, "kafka": {"fetch.max.wait.ms": 50}}
    return KafkaSource(KafkaConfig.model_validate({**usual, **settings}))


class KafkaShop(SourceSystem):
    """Topics with a common prefix, one for each table.

    A connector's snapshot of a table is in its topic before reading begins (`startFrom` is `latest`): one row, put in
    and deleted. Without any record the table's columns would be unknown.
    """

    def __init__(self, broker: KafkaBroker, partitions: int = 1) -> None:
        self._broker = broker
        self._partitions = partitions
        self._name = f"shop{uuid.uuid4().hex[:8]}"
        self._topics: dict[TableId, str] = {}
        self._tables = Simulator({})
        self.source = source_of(broker, topicPattern=rf"{self._name}\..*", startFrom="latest")
        broker.create_topic(f"{self._name}.none")
        self._exit = contextlib.ExitStack()
        self._producer = self._exit.enter_context(broker.producer(linger_ms=0))

    def create_table(self, name: str, schema: TableSchema) -> TableId:
        """Create a topic; the table's name may have any characters."""
        table = TableId(self._name, name, "public")
        topic = f"{self._name}.{len(self._topics)}"
        self._topics[table] = self._broker.create_topic(topic, self._partitions)
        made = TableSchema(table, schema.columns, schema.primary_key)
        self._tables.create(str(table), made)
        row = {column.name: _sample(column.type) for column in made.columns}
        self._send(made, key_of(made, row), envelope(made, "r", None, row))
        self._send(made, key_of(made, row), envelope(made, "d", row, None))
        self._producer.flush()
        return table

    def execute(self, steps: Sequence[tuple[Step, TableSchema]]) -> None:
        """Change the tables, and write the changes, in order."""
        for step, schema in steps:
            for change in self._tables.perform(step, schema.table, MemoryOffset(0)):
                self._write(change)
        self._producer.flush()

    def read_table(self, schema: TableSchema) -> list[Row]:
        """The database's own rows."""
        rows = self._tables.reference.tables[schema.table].rows
        return [{name: row[name] for name in schema.names} for row in rows]

    def lose_history(self) -> None:
        """Delete all records, as retention would."""
        for topic in self._topics.values():
            self._broker.delete_records(topic, self._broker.ends(topic))

    def close(self) -> None:
        """Delete the topics."""
        self._exit.close()
        self._broker.delete_topics(f"{self._name}.none", *self._topics.values())

    def _write(self, change: RowChange | DDLEvent) -> None:
        """A changed key is a delete and an insert; a change of columns is written with the next row."""
        if isinstance(change, DDLEvent):
            if not change.alters and change.schema is not None:
                self._send(change.schema, None, envelope(change.schema, "t"))
            return
        schema, before = change.schema, change.before
        if change.operation is DMLOperation.INSERT:
            self._send(schema, key_of(schema, change.row), envelope(schema, "c", None, change.row))
        elif change.operation is DMLOperation.DELETE:
            self._delete(schema, before)
        elif before is not None and schema.primary_key:
            self._delete(schema, before)
            self._send(schema, key_of(schema, change.row), envelope(schema, "c", None, self._sent(change, frozenset())))
        else:
            row = self._sent(change, frozenset({"string"}))
            self._send(schema, key_of(schema, change.row), envelope(schema, "u", before, row))

    def _sent(self, change: RowChange, unavailable: frozenset[str]) -> Row:
        """The row after an update. Only columns of some types are ever left out, as large texts are in PostgreSQL."""
        table = self._tables.reference.tables[change.schema.table]
        place = table.find(change.row) if change.unchanged else None
        whole = change.row if place is None else table.rows[place]
        left_out = {name for name in change.unchanged if change.schema[name].type.name in unavailable}
        return {name: whole[name] for name in change.schema.names if name not in left_out}

    def _delete(self, schema: TableSchema, before: Mapping[str, Any] | None) -> None:
        assert before is not None
        key = key_of(schema, before)
        self._send(schema, key, envelope(schema, "d", before, None))
        if key is not None:
            self._send(schema, key, None)

    def _send(self, schema: TableSchema, key: bytes | None, value: bytes | None) -> None:
        partition = 0 if key is None else None
        self._producer.send(self._topics[schema.table], key=key, value=value, partition=partition)


def _sample(kind: DataType) -> Any:
    if isinstance(kind, Array):
        return [_sample(kind.element)]
    return Number(0) if isinstance(kind, Decimal) else _SAMPLES[kind.name]
