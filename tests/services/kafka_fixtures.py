"""Fixtures for Kafka: a shared broker with topics per test, and private brokers for tests that break theirs."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from typing import TypeAlias

import pytest

from tests.services.kafka import KafkaBroker

MakeTopic: TypeAlias = Callable[..., str]
PrivateKafka: TypeAlias = Callable[..., KafkaBroker]


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

    def make(partitions: int = 1, *, prefix: str = "topic", **settings: object) -> str:
        made.append(kafka.create_topic(f"{prefix}.{uuid.uuid4().hex[:10]}", partitions, **settings))
        return made[-1]

    yield make
    if left := sorted(set(made) & set(kafka.topics())):
        kafka.delete_topics(*left)


@pytest.fixture
def private_kafka() -> Iterator[PrivateKafka]:
    """Starts brokers of the test's own, `private_kafka(message_max_bytes=2000)`, and removes them."""
    with contextlib.ExitStack() as brokers:

        def start(**settings: object) -> KafkaBroker:
            broker = KafkaBroker(**settings)
            brokers.callback(broker.remove)
            return broker.start()

        yield start
