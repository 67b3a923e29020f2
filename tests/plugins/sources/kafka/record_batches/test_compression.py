"""Batches compressed by Java are read, as one stream and in slices; data that cannot be decompressed are an error."""

from __future__ import annotations

import contextlib
import os
import subprocess

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator_sdk.errors import DataError, NeedsUserError
from replicator_source_kafka.client.cluster import Cluster
from replicator_source_kafka.record_batches import compression
from replicator_source_kafka.record_batches.compression import decompress
from replicator_source_kafka.record_batches.decoding import read_batches
from tests.plugins.sources.kafka.harness.simulated_database import source_of
from tests.plugins.sources.kafka.harness.source_runs import Planner, Pump, inserts, orders
from tests.services.kafka.broker import KafkaBroker
from tests.services.kafka.fixtures import MakeTopic
from tests.services.kafka.programs import command, environment

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
    """The codecs of the topic's batches at the broker."""
    source = source_of(kafka, topics=[topic])
    with Cluster(source.config) as cluster:
        answers = cluster.fetch(dict.fromkeys(cluster.topics([topic])[topic].partitions, 0))
    return {batch.attributes & 7 for answer in answers for batch in read_batches(answer.data)}


@pytest.mark.parametrize("codec", CODECS)
def test_what_the_broker_compressed_is_read(kafka: KafkaBroker, kafka_topic: MakeTopic, codec: str) -> None:
    """The broker has the codecs of the Java client, and compresses each batch again with the topic's codec."""
    topic = kafka_topic(2, compression_type=codec)
    kafka.produce(topic, inserts(ROWS, note=LONG))
    assert codecs(kafka, topic) == {CODECS[codec]}
    read_both_ways(kafka, topic)


def test_what_a_java_producer_compressed_is_read(kafka: KafkaBroker, kafka_topic: MakeTopic) -> None:
    """With snappy, for which it has its own framing."""
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
def test_random_bytes_are_a_data_error_or_bytes(codec: int, data: bytes) -> None:
    found: bytes | memoryview = b""
    with contextlib.suppress(DataError):
        found = decompress(codec, memoryview(data))
    assert isinstance(found, bytes)


@given(st.sampled_from(sorted(CODECS)), st.binary(max_size=5000))
def test_compressed_bytes_are_decompressed_to_the_same_bytes(name: str, data: bytes) -> None:
    target = pa.BufferOutputStream()
    if name == "snappy":
        target.write(pa.compress(data, codec=name))
    else:
        with pa.CompressedOutputStream(target, name) as stream:
            stream.write(data)
    assert decompress(CODECS[name], memoryview(target.getvalue().to_pybytes())) == data


def test_unknown_codecs_are_refused() -> None:
    with pytest.raises(DataError, match=r"RPL-3981.*codec 5"):
        decompress(5, memoryview(b"x"))


def test_a_codec_that_arrow_lacks_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "_is_built", lambda name: name != "zstd")
    with pytest.raises(NeedsUserError, match=r"RPL-3980.*zstd.*pip install"):
        decompress(4, memoryview(b"x"))
    with pytest.raises(DataError, match="RPL-3981"):
        decompress(1, memoryview(b"x"))
