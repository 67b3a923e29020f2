"""Fixtures for Kafka: a shared broker with topics per test, and private brokers for tests that break theirs."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest

from tests.services.connect.worker import ConnectWorker
from tests.services.kafka.broker import KafkaBroker

MakeTopic: TypeAlias = Callable[..., str]
PrivateKafka: TypeAlias = Callable[..., KafkaBroker]
PrivateConnect: TypeAlias = Callable[..., ConnectWorker]


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaBroker]:
    """The broker all tests share; do not stop or reconfigure it, and name topics by `kafka_topic`."""
    broker = KafkaBroker()
    try:
        yield broker.start()
    finally:
        broker.remove()


@pytest.fixture
def kafka_topic(kafka: KafkaBroker) -> Iterator[MakeTopic]:
    """Makes topics of the test's own on the shared broker: `kafka_topic(partitions=3, prefix="shop", cleanup_policy="compact")`.

    They are deleted at the end, if the test has not done it.
    """
    made: list[str] = []

    def make(partitions: int = 1, *, prefix: str = "topic", **settings: Any) -> str:
        made.append(kafka.create_topic(f"{prefix}.{uuid.uuid4().hex[:10]}", partitions, **settings))
        return made[-1]

    yield make
    if left := sorted(set(made) & set(kafka.topics())):
        kafka.delete_topics(*left)


@pytest.fixture
def private_kafka() -> Iterator[PrivateKafka]:
    """Starts brokers of the test's own, `private_kafka(message_max_bytes=2000)`, and removes them."""
    with contextlib.ExitStack() as brokers:

        def start(**settings: Any) -> KafkaBroker:
            broker = KafkaBroker(**settings)
            brokers.callback(broker.remove)
            return broker.start()

        yield start


@pytest.fixture
def private_connect() -> Iterator[PrivateConnect]:
    """Starts Connect workers of the test's own, `private_connect(broker, exactly_once=True)`, and removes them.

    Ask for it before the fixtures of its sources, or delete its connectors, which would hold on to their databases.
    """
    with contextlib.ExitStack() as workers:

        def start(broker: KafkaBroker, *, exactly_once: bool = False, **settings: Any) -> ConnectWorker:
            worker = ConnectWorker(broker, exactly_once=exactly_once, **settings)
            workers.callback(worker.remove)
            return worker.start()

        yield start
