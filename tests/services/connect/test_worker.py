"""The Connect workers of the tests run Debezium's connectors, and survive what the tests do to them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from kafka.errors import KafkaError

from tests.services.connect.debezium import mysql_connector, postgres_connector
from tests.services.connect.worker import ConnectError
from tests.services.kafka.broker import KafkaBroker
from tests.services.kafka.fixtures import PrivateConnect, PrivateKafka
from tests.services.mysql.server import MysqlDatabase
from tests.services.postgres.server import PostgresDatabase


def changes(broker: KafkaBroker, topic: str, enough: Callable[[list[Any]], bool], seconds: float = 120) -> list[Any]:
    """The content of a topic's records, without tombstones, as soon as it is enough."""
    deadline, found = time.monotonic() + seconds, []
    while time.monotonic() < deadline:
        try:
            records = broker.records(topic) if topic in broker.topics() else []
        except (KafkaError, TimeoutError):  # the broker comes back
            records = []
        found = [json.loads(record.value) for record in records if record.value is not None]
        if enough(found):
            return found
        time.sleep(0.1)
    raise AssertionError(f"{topic} has {found} only")


def test_both_connectors_write_envelopes_with_schemas_and_without(
    kafka: KafkaBroker,
    private_connect: PrivateConnect,
    postgres_database: PostgresDatabase,
    mysql_database: MysqlDatabase,
) -> None:
    for database in (postgres_database, mysql_database):
        database.execute("CREATE TABLE item (id int PRIMARY KEY, name varchar(20))")
        database.execute("INSERT INTO item VALUES (1, 'first')")
    worker, prefixes = private_connect(kafka), (f"p.{postgres_database.name}", f"m.{mysql_database.name}")
    worker.create("p", postgres_connector(postgres_database, prefixes[0], ["public\\.item"]))
    worker.create("m", mysql_connector(mysql_database, kafka, prefixes[1], ["item"], schemas=False))
    topics = (f"{prefixes[0]}.public.item", f"{prefixes[1]}.{mysql_database.name}.item")
    for topic in topics:
        changes(kafka, topic, lambda found: len(found) == 1)
    for database in (postgres_database, mysql_database):
        database.execute("UPDATE item SET name = 'second'")
    with_schema = changes(kafka, topics[0], lambda found: len(found) == 2)
    assert all(each["schema"]["name"] == f"{topics[0]}.Envelope" for each in with_schema)
    for found in ([each["payload"] for each in with_schema], changes(kafka, topics[1], lambda found: len(found) == 2)):
        assert [(each["op"], each["after"]["name"]) for each in found] == [("r", "first"), ("u", "second")]
    worker.delete("p")
    worker.delete("m")
    assert worker.states("p") == {}


def test_nothing_is_lost_or_repeated_in_transactions_when_worker_and_broker_are_killed(
    private_kafka: PrivateKafka,
    private_connect: PrivateConnect,
    postgres_database: PostgresDatabase,
) -> None:
    broker = private_kafka()
    postgres_database.execute("CREATE TABLE item (id int PRIMARY KEY)")
    worker = private_connect(broker, exactly_once=True)
    connector = postgres_connector(postgres_database, "shop", ["public\\.item"], snapshot_mode="no_data", schemas=False)
    worker.create("p", connector)
    for number, harm in enumerate([lambda: None, worker.kill, broker.kill]):
        postgres_database.execute(f"INSERT INTO item SELECT generate_series({number * 100}, {number * 100 + 99})")
        harm()
        if not broker.running:
            broker.start()
        if not worker.running:
            worker.start()
    found = changes(
        broker, "shop.public.item", lambda found: {each["after"]["id"] for each in found} == set(range(300))
    )
    assert len(found) == 300
    worker.delete("p")


def test_a_connector_that_fails_says_why(
    kafka: KafkaBroker, private_connect: PrivateConnect, postgres_database: PostgresDatabase
) -> None:
    connector = postgres_connector(postgres_database, "shop", ["public\\.item"], plugin_name="nonsense")
    with pytest.raises(ConnectError, match=r"plugin\.name"):
        private_connect(kafka).create("p", connector)
