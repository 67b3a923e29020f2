"""Debezium's records in a Kafka topic of eight partitions, read and merged by us, and by sinks of Kafka Connect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.comparisons.turns import Plan, scratch
from bench.data.postgres_orders import Orders
from bench.measure import Book, marginal
from bench.ours import Ours
from bench.peers import kafka
from bench.peers.connect import IcebergSink, JdbcSink, fill_topic
from bench.process import Cost
from tests.services.processes import LOOPBACK

TOPIC, ONE_CORE = "topic", "ours, one core"
_PARTITIONS = 8
_ONE_CORE: Mapping[str, Any] = {"resources": {"vcores": 1}}


def drain(orders: Orders, plan: Plan, book: Book) -> None:
    """From the topic's beginning to its end, JSON with schemas, large less small.

    The rows of a snapshot: each is one record. The Iceberg sink only appends them; the others merge by key.
    """
    sizes = {"orders_small": plan.rows // 10, "orders": plan.rows}
    with scratch(plan.folder / TOPIC) as folder, kafka.broker(folder / "kafka") as broker:
        topics = {}
        for table, rows in sizes.items():
            orders.make(table, rows)
            topics[table] = fill_topic(orders, broker, table, rows, _PARTITIONS)

        def ours(side: str, table: str, number: int, **settings: Any) -> Cost:
            place: Path = folder / f"{side}_{table}_{number}".replace(", ", "_").replace(" ", "_")
            properties = {"bootstrapServers": f"{LOOPBACK}:{broker.port}", "topics": [topics[table]]}
            source = ("kafka", {**properties, "format": "debezium-json"})
            with scratch(place):
                return Ours(orders, place, [table], source, **settings).until_current()

        for number in range(plan.rounds):
            for side, settings in (("ours", {}), (ONE_CORE, _ONE_CORE)):
                costs = {table: (rows, ours(side, table, number, **settings)) for table, rows in sizes.items()}
                book.add(marginal(TOPIC, side, number, costs["orders_small"], costs["orders"]))
        peers: Mapping[str, Callable[[str], JdbcSink | IcebergSink]] = {
            "Debezium-jdbc": lambda table: JdbcSink(orders, broker, table, orders.server, _PARTITIONS),
            "Debezium-iceberg": lambda table: IcebergSink(orders, broker, table, _PARTITIONS),
        }
        for side, peer_of in peers.items():
            found = {table: (rows, peer_of(table).drain_topic(topics[table], rows)) for table, rows in sizes.items()}
            book.add(marginal(TOPIC, side, 0, found["orders_small"], found["orders"]))
    orders.forget()
