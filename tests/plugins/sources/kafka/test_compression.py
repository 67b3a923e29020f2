"""Batches as Java compresses them are read, as one stream and in slices; what cannot be decompressed is an error."""

from __future__ import annotations

import contextlib
import os
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator_sdk.errors import DataError, NeedsUserError
from replicator_source_kafka import compression
from replicator_source_kafka.client import Cluster
from replicator_source_kafka.compression import decompress
from replicator_source_kafka.wire import read_batches
from tests.plugins.sources.kafka.harness import Planner, Pump, inserts, orders
from tests.plugins.sources.kafka.shop import source_of
from tests.services.kafka import KafkaBroker
from tests.services.kafka_fixtures import MakeTopic
from tests.services.kafka_programs import command, environment

ROWS = range(300)
LONG = "long enough for several blocks " * 20
CODECS = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def read_both_ways(kafka: KafkaBroker, topic: str) -> None:
    pump = Pump(kafka, [topic])
    stored = {row["id"]: row["note"] for _, row, _, _ in pump.read().changes("orders")}
    assert stored == dict.fromkeys(ROWS, LONG)
    made = Planner(kafka, [orders()], topics=[topic])
    assert made.ids(made.log.initialize(None)) == list(ROWS)  # type: ignore[arg-type]
    made.log.close()


def codecs(kafka: KafkaBroker, topic: str) -> set[int]:
    """The codecs that batches of the topic have at the broker."""
    source = source_of(kafka, topics=[topic])
    with Cluster(source.config) as cluster:
        answers = cluster.fetch(dict.fromkeys(cluster.topics([topic])[topic].places, 0))
    return {batch.attributes & 7 for answer in answers for batch in read_batches(answer.data)}


@pytest.mark.parametrize("codec", CODECS)
def test_what_the_broker_compressed_is_read(kafka: KafkaBroker, kafka_topic: MakeTopic, codec: str) -> None:
    """Its codecs are those of the Java client; it writes each batch anew, in that of the topic."""
    topic = kafka_topic(2, compression_type=codec)
    kafka.produce(topic, inserts(ROWS, note=LONG))
    assert codecs(kafka, topic) == {CODECS[codec]}
    read_both_ways(kafka, topic)


def test_what_a_java_producer_compressed_is_read(kafka: KafkaBroker, kafka_topic: MakeTopic) -> None:
    """With snappy, which it frames in a way of its own."""
    topic = kafka_topic(2)
    lines = [b"%s\t%s\n" % (key, value) for key, value in inserts(ROWS, note=LONG) if key and value]
    program = command(
        "org.apache.kafka.tools.ConsoleProducer",
        *("--bootstrap-server", kafka.bootstrap, "--topic", topic, "--compression-codec", "snappy"),
        *("--property", "parse.key=true", "--property", "batch.size=200000", "--producer-property", "linger.ms=200"),
    )
    subprocess.run(program, input=b"".join(lines), env={**os.environ, **environment()}, check=True, timeout=60)
    assert codecs(kafka, topic) == {CODECS["snappy"]}
    read_both_ways(kafka, topic)


@given(st.sampled_from(sorted(CODECS.values())), st.binary(max_size=50))
def test_bytes_that_nobody_compressed_are_an_error_of_the_data_or_nothing(codec: int, data: bytes) -> None:
    with contextlib.suppress(DataError):
        decompress(codec, memoryview(data))


def test_codecs_of_the_future_are_refused() -> None:
    with pytest.raises(DataError, match=r"RPL-3981.*codec 5"):
        decompress(5, memoryview(b"x"))


def test_a_codec_that_arrow_lacks_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "_is_built", lambda name: name != "zstd")
    with pytest.raises(NeedsUserError, match=r"RPL-3980.*zstd.*pip install"):
        decompress(4, memoryview(b"x"))
    with pytest.raises(DataError, match="RPL-3981"):
        decompress(1, memoryview(b"x"))
