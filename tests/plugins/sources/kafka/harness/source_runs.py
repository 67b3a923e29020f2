"""Runs of a Kafka source, and records for it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from replicator_sdk import EventReaderDefinition, TableId, TableSchema
from replicator_sdk.datatype import INT64, STRING
from replicator_sdk.distributed.slices import read_partitions
from replicator_sdk.schema import Column
from replicator_sdk.testing.contexts import TestSourceContext
from replicator_source_kafka import KafkaOffset
from replicator_source_kafka.slices.distributed_log import KafkaLog
from tests.plugins.sources.kafka.harness.connect_json import envelope, key_of
from tests.plugins.sources.kafka.harness.simulated_database import source_of
from tests.plugins.sources.pump import Run, SourcePump
from tests.services.kafka.client import Content, KafkaClient

__all__ = ["Planner", "Pump", "Run", "deletes", "inserts", "now", "orders", "snapshot"]


def orders(table: str = "orders", *more: Column, keyless: bool = False) -> TableSchema:
    """A table of a number and a text."""
    columns = (Column("id", INT64, nullable=False), Column("note", STRING), *more)
    return TableSchema(TableId("shop", table, "public"), columns, () if keyless else ("id",))


def inserts(ids: Iterable[int], schema: TableSchema | None = None, **row: Any) -> list[Content]:
    """Records of inserted rows."""
    schema = schema or orders()
    blank = dict.fromkeys(schema.names)
    rows = ({**blank, "id": number, "note": f"n{number}", **row} for number in ids)
    return [(key_of(schema, each), envelope(schema, "c", None, each)) for each in rows]


def deletes(ids: Iterable[int], schema: TableSchema | None = None) -> list[Content]:
    """Records of deleted rows, each with its tombstone."""
    schema = schema or orders()
    found: list[Content] = []
    for number in ids:
        key = key_of(schema, {"id": number})
        found += [(key, envelope(schema, "d", {"id": number})), (key, None)]
    return found


def snapshot(rows: Mapping[int, str], schema: TableSchema | None = None) -> list[Content]:
    """What the connector writes when it snapshots the table again: its rows, id → note."""
    schema = schema or orders()
    records = ({"id": number, "note": note} for number, note in rows.items())
    return [(key_of(schema, row), envelope(schema, "r", None, row)) for row in records]


def now() -> str:
    """A time after all records that were written, as `startFrom` has it."""
    time.sleep(0.01)
    return datetime.now(UTC).isoformat()


class Pump(SourcePump):
    """Some topics of a broker.

    Args:
        broker: The broker.
        topics: Topics to read.
        tables: Tables to capture; all that the registry lists when left out.
        settings: Further settings of the source, as the pipeline JSON has them.
    """

    def __init__(
        self, broker: KafkaClient, topics: Sequence[str] = (), tables: Sequence[str] | None = None, **settings: Any
    ) -> None:
        self.broker = broker
        source = source_of(broker, **({"topics": list(topics)} if topics else {}), **settings)
        with source.create_table_registry() as registry:
            wants_some = tables is None or len(tables) > 0  # else the topics may be new, and hold no record to list by
            listed = [summary.table for summary in registry.list_tables()] if wants_some else []
        super().__init__(source, {t.table: t for t in listed if tables is None or t.table in tables})

    def table(self, name: str) -> TableId:
        """A table of the test."""
        return TableId("shop", name, "public")

    def ids(self, run: Run, name: str = "orders") -> list[tuple[str, Any]]:
        """Operation and id of every change of a table, in order."""
        return [(op, (before if op == "D" else row)["id"]) for op, row, before, _ in run.changes(name)]  # type: ignore[index]


class Planner:
    """The topics as slices, planned here and read in this process."""

    def __init__(self, broker: KafkaClient, tables: Iterable[TableSchema] = (), **settings: Any) -> None:
        source = source_of(broker, **settings)
        definition = EventReaderDefinition({schema.table: schema for schema in tables})
        self.context = TestSourceContext()
        made = source.create_distributed_log(definition, self.context)
        assert isinstance(made, KafkaLog)
        self.log = made

    def ids(self, start: KafkaOffset, end: KafkaOffset | None = None, schema: TableSchema | None = None) -> list[int]:
        """The ids of all rows of the next slice, of all partitions."""
        piece = self.log.plan(start, 1 << 30, end)
        if piece is None:
            return []
        known = schema or orders()
        found = read_partitions(self.log.read, piece.partitions, {known.table: known})
        assert found.seen == []
        rows = [batch.row.field("id").to_pylist() for batch in found.batches.get(known.table, [])]
        return sorted(number for part in rows for number in part)
