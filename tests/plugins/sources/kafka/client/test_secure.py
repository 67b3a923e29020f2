"""Topics of brokers with TLS and logins, read as one stream and in slices; errors of both are reported at once."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from replicator_sdk.config import OutOfRange
from replicator_sdk.distributed.slices import read_partitions
from replicator_sdk.errors import NeedsUserError, ReplicatorError, RetryableError
from replicator_sdk.schema import TableId
from replicator_sdk.testing.in_memory.target import MemoryStore, MemoryTarget
from replicator_source_kafka import KafkaOffset, KafkaSource
from replicator_source_kafka.slices.range_reader import KafkaRangeReader
from replicator_source_kafka.tables.topic_tables import TopicOrder
from tests.plugins.sources.kafka.harness.simulated_database import source_of
from tests.plugins.sources.kafka.harness.source_runs import Planner, Pump, inserts, orders
from tests.runtime.engine.partitioned_shop import Host, PartitionedShop, run_pipeline
from tests.services.certificates import issue
from tests.services.kafka.secure import MECHANISMS, PASSWORD, USER, SecureKafkaBroker
from tests.services.network import Proxy

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
    executors = KafkaRangeReader(stranger.config, piece.end.topics, OutOfRange.FAIL, TopicOrder(piece.end))
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


# ------------------------------------------------------------ faults that pass by themselves


class CutAfter(Proxy):
    """Passes some of the server's bytes of each connection, then ends it.

    Attributes:
        passing: How many.
        by_reset: Whether the client sees a reset; otherwise an end in order.
    """

    def __init__(self, server_port: int) -> None:
        self.passing, self.by_reset = 0, False
        super().__init__(server_port)

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        left, other = self.passing, {client: server, server: client}
        server.sendall(client.recv(1 << 16))  # the client's greeting: the connection ends inside the handshake
        while left > 0:
            for end in select.select([client, server], [], [], 0.1)[0]:
                piece = end.recv(left if end is server else 1 << 16)
                if not piece:
                    return
                left -= len(piece) if end is server else 0
                other[end].sendall(piece)
        if self.by_reset:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")


@pytest.mark.parametrize("by_reset", [False, True])
@pytest.mark.parametrize("passing", [0, 3, 1_000])
def test_a_connection_that_ends_in_the_tls_handshake_is_retried(
    broker: SecureKafkaBroker, passing: int, *, by_reset: bool
) -> None:
    proxy = CutAfter(broker.tls_port)
    proxy.passing, proxy.by_reset = passing, by_reset
    settings = access(broker, request_timeout_ms="1500")
    settings["bootstrapServers"] = f"{proxy.host}:{proxy.port}"
    source = source_of(broker, topics=[TOPIC], **settings)
    try:
        with pytest.raises(RetryableError, match="RPL-3967"):
            source.latest_offset()
        proxy.passing = 1 << 30
        assert source.latest_offset().next.keys() == {(TOPIC, 0), (TOPIC, 1)}
    finally:
        proxy.close()


@pytest.mark.parametrize("distributed", [True, False])
def test_a_broker_that_is_killed_during_tls_traffic_comes_back(
    broker: SecureKafkaBroker, tmp_path: Path, *, distributed: bool
) -> None:
    topic = broker.create_topic(f"{TOPIC}-{distributed}", 2)
    document = PartitionedShop(tmp_path, 1).document("memory", {"store": str(tmp_path)})
    settings = {**access(broker, request_timeout_ms="2000"), "topics": [topic], "distributed": distributed}
    document["stages"][0]["plugin"]["properties"] = settings
    document["retries"] = {"delaySeconds": 0.5}
    broker.produce(topic, inserts(range(2_000)))
    stop = threading.Event()
    more = {"until_current": False, "stop": stop}
    host = Host(MemoryTarget, KafkaSource)
    following = threading.Thread(target=run_pipeline, args=(document, host), kwargs=more, daemon=True)
    following.start()
    try:
        broker.produce(topic, inserts(range(2_000, 4_000)))
        broker.kill()
        broker.start()
        broker.produce(topic, inserts([4_000]))
        deadline = time.monotonic() + 180
        while len(_ids(tmp_path)) < 4_001 and time.monotonic() < deadline:
            time.sleep(0.2)
    finally:
        stop.set()
        following.join(120)
    assert _ids(tmp_path) == list(range(4_001))
    MemoryStore.forget(str(tmp_path))


def _ids(store: Path) -> list[int]:
    return sorted(row["id"] for row in MemoryStore.of(str(store)).rows(TableId("shop", "orders", "public")))


@pytest.mark.parametrize(("protocol", "code"), [("PLAINTEXT", "RPL-3975"), ("SSL", "RPL-3967")])
def test_the_port_of_the_other_protocol_is_an_error_soon(broker: SecureKafkaBroker, protocol: str, code: str) -> None:
    """A listener in clear closes the connection of a client with TLS, as one that dies does."""
    port, tls = (broker.tls_port, {}) if protocol == "PLAINTEXT" else (broker.port, access(broker)["kafka"])
    settings = {"bootstrapServers": f"{broker.host}:{port}", "kafka": {**tls, "request.timeout.ms": 3000}}
    since = time.monotonic()
    with pytest.raises(ReplicatorError, match=code) as caught:
        source_of(broker, topics=[TOPIC], **settings).latest_offset()
    assert time.monotonic() - since < 100
    assert "security.protocol" in caught.value.hint
