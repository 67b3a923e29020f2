"""Topics of brokers with TLS and logins, read as one stream and in slices; errors of both are reported at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from replicator_sdk.config import OutOfRange
from replicator_sdk.distributed.slices import read_partitions
from replicator_sdk.errors import NeedsUserError
from replicator_source_kafka import KafkaOffset
from replicator_source_kafka.slices.range_reader import KafkaRangeReader
from tests.plugins.sources.kafka.harness.simulated_database import source_of
from tests.plugins.sources.kafka.harness.source_runs import Planner, Pump, inserts, orders
from tests.services.certificates import issue
from tests.services.kafka.secure import MECHANISMS, PASSWORD, USER, SecureKafkaBroker

TOPIC = "orders"
PATIENCE = {"fetch.max.wait.ms": 50}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafkaBroker]:
    made = SecureKafkaBroker(tmp_path_factory.mktemp("secure"))
    try:
        made.start()
        made.add_user()
        made.produce(made.create_topic(TOPIC, 2), inserts(range(20)))
        yield made
    finally:
        made.remove()


def access(broker: SecureKafkaBroker, mechanism: str = "", **differing: str) -> dict[str, Any]:
    """Settings of the source with a valid login."""
    login = {"sasl.mechanism": mechanism, "sasl.username": USER, "sasl.password": PASSWORD} if mechanism else {}
    kafka: Mapping[str, object] = {
        "security.protocol": "SASL_SSL" if mechanism else "SSL",
        "ssl.ca.location": str(broker.certificate.authority),
        **login,
        **{name.replace("_", "."): value for name, value in differing.items()},
        **PATIENCE,
    }
    port = broker.login_port if mechanism else broker.tls_port
    return {"bootstrapServers": f"{broker.host}:{port}", "kafka": kafka}


@pytest.mark.parametrize("mechanism", ["", *MECHANISMS])
def test_a_valid_login_can_read_both_ways(broker: SecureKafkaBroker, mechanism: str) -> None:
    settings = access(broker, mechanism)
    pump = Pump(broker, [TOPIC], **settings)
    assert sorted(number for _, number in pump.ids(pump.read())) == list(range(20))
    made = Planner(broker, [orders()], topics=[TOPIC], **settings)
    assert made.ids(made.log.initialize(None)) == list(range(20))  # type: ignore[arg-type]
    made.log.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_refused_everywhere(broker: SecureKafkaBroker, mechanism: str) -> None:
    wrong = access(broker, mechanism, sasl_password="not-the-password")
    refused_everywhere(broker, access(broker, mechanism), wrong, "RPL-3963")


def test_a_broker_with_an_untrusted_certificate_is_refused_everywhere(
    broker: SecureKafkaBroker, tmp_path: Path
) -> None:
    stranger = access(broker, ssl_ca_location=str(issue(tmp_path).authority))
    refused_everywhere(broker, access(broker), stranger, "RPL-3966")


def test_a_file_without_a_certificate_is_a_tls_error(broker: SecureKafkaBroker) -> None:
    no_authority = access(broker, ssl_ca_location=str(broker.certificate.key))
    with pytest.raises(NeedsUserError, match="RPL-3966"):
        source_of(broker, topics=[TOPIC], **no_authority).latest_offset()


def refused_everywhere(
    broker: SecureKafkaBroker, right: Mapping[str, Any], wrong: Mapping[str, Any], code: str
) -> None:
    """Stream, planner and executor fail soon, each with a message of one line without secrets."""
    pump = Pump(broker, [TOPIC], **right)
    stranger = pump.source = source_of(broker, topics=[TOPIC], **wrong)
    planner = Planner(broker, [orders()], topics=[TOPIC], **right)
    piece = planner.log.plan(planner.log.initialize(None), 1 << 30)
    assert piece is not None
    assert isinstance(piece.end, KafkaOffset)
    executors = KafkaRangeReader(stranger.config, piece.end.topics, OutOfRange.FAIL)
    turned_away = Planner(broker, [orders()], topics=[TOPIC], **wrong)
    attempts: list[Callable[[], object]] = [
        pump.prepare,
        lambda: turned_away.log.initialize(None),
        lambda: read_partitions(executors, piece.partitions, {orders().table: orders()}),
    ]
    for attempt in attempts:
        since = time.monotonic()
        with pytest.raises(NeedsUserError) as caught:
            attempt()
        assert time.monotonic() - since < 12, "it retried a permanent error until the bootstrap's timeout"
        assert caught.value.code == code
        assert "\n" not in str(caught.value)
        assert "not-the-password" not in str(caught.value)
    planner.log.close()
