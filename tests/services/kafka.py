"""Private Kafka brokers: one node (KRaft) each, on loopback, small, ready in seconds.

Topics are made by whoever needs them, never by asking for one, and keep everything unless they say otherwise. Retention and
compaction look around every second, so that a test sees what they do. Data goes to the file system's cache only, which a killed broker does not lose.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import OffsetSpec
from kafka.consumer.fetcher import ConsumerRecord
from kafka.errors import KafkaError, for_code

from tests.services.kafka_programs import BROKER, command, environment, format_storage
from tests.services.processes import (
    LOOPBACK,
    ServerError,
    accepts_connections,
    free_port,
    scratch_folder,
    spawn,
    stop,
    tail,
    wait_until,
)

Content: TypeAlias = tuple[bytes | None, bytes | None]
"""Key and value of a record; a value of None is a tombstone."""

_SETTINGS: Mapping[str, object] = {
    "process.roles": "broker,controller",
    "node.id": 1,
    "controller.listener.names": "CONTROLLER",
    "auto.create.topics.enable": False,
    "broker.heartbeat.interval.ms": 500,
    "broker.session.timeout.ms": 3000,
    "num.network.threads": 1,
    "num.io.threads": 2,
    "group.coordinator.threads": 1,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1000,
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 1,
    "transaction.partition.verification.enable": True,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    "log.cleaner.dedupe.buffer.size": 4 << 20,
    "log.cleaner.backoff.ms": 1000,
    "log.initial.task.delay.ms": 1000,
    "log.retention.check.interval.ms": 1000,
    "log.retention.ms": -1,  # else records of a test's own time, such as 1970, are gone in a second
    "log.segment.delete.delay.ms": 1000,
}


class KafkaBroker:
    """One private broker; start it, use it from any thread, stop it. Everything it wrote goes with `remove()`.

    Attributes:
        host: the loopback address.
        port: its port, which a restart keeps.
        data: its data folder.
        log: what it said.
    """

    def __init__(self, **settings: object) -> None:
        """Makes the data folder, as new; the broker is not started yet.

        Args:
            **settings: lines of `server.properties` that differ from the tests' usual ones, with `_` for `.`.
        """
        self.host = LOOPBACK
        self._folder = scratch_folder("kafka")
        self.data, self.log, self._properties = (self._folder / name for name in ("data", "log", "server.properties"))
        self._settings = {**_SETTINGS, "log.dirs": self.data, **_dotted(settings)}
        self._process: subprocess.Popen[bytes] | None = None
        self._choose_ports()
        format_storage(self._properties, self.data)

    def _choose_ports(self) -> None:
        self.port, controller = free_port(), free_port()
        listener = f"PLAINTEXT://{LOOPBACK}:{self.port}"
        self._settings |= {
            "controller.quorum.voters": f"1@{LOOPBACK}:{controller}",
            "listeners": f"{listener},CONTROLLER://{LOOPBACK}:{controller}",
            "advertised.listeners": listener,
        }
        self._write()

    def _write(self) -> None:
        write_properties(self._properties, self._settings)

    # ------------------------------------------------------------ life

    @property
    def bootstrap(self) -> str:
        """Its address, as `bootstrap.servers` wants it."""
        return f"{self.host}:{self.port}"

    @property
    def running(self) -> bool:
        """Whether the broker's process lives; it may still be recovering."""
        return self._process is not None and self._process.poll() is None

    @property
    def cluster_id(self) -> str:
        """Its cluster's id, which a restart keeps."""
        with self.admin() as admin:
            return str(admin.describe_cluster()["cluster_id"])

    def start(self, *, keep_classes: Path | None = None) -> KafkaBroker:
        """Starts the broker and waits until it answers; the first start may move to other free ports.

        Args:
            keep_classes: see `kafka_programs.command`.
        """
        first = self._process is None
        for attempt in range(5):
            if attempt:
                self._choose_ports()
            started = command(BROKER, self._properties, keep_classes=keep_classes)
            self._process = spawn(started, log=self.log, environment=environment(), folder=self._folder)
            try:
                wait_until(self._answers, process=self._process, log=self.log, seconds=90)
            except ServerError:
                self.kill()
                if not (first and "Address already in use" in tail(self.log, 100)):
                    raise
            else:
                return self
        raise ServerError(f"Kafka: no free port in five attempts:\n{tail(self.log)}")

    def _answers(self) -> bool:
        """Whether it serves clients; a stranger on the port does not speak its protocol."""
        if not accepts_connections(self.port):
            return False
        try:
            with self.admin() as admin:
                return bool(admin.describe_cluster()["brokers"])
        except (KafkaError, OSError):
            return False

    def stop(self) -> None:
        """Shuts down in order."""
        if self._process:
            stop(self._process)

    def kill(self) -> None:
        """Kills the broker at once, as a crash would; `start()` then recovers its logs."""
        if self._process and self.running:
            self._process.kill()
            self._process.wait(10)

    def restart(self, **settings: object) -> None:
        """Stops and starts again on the same port and data, with `settings` changed."""
        self.stop()
        self._settings |= _dotted(settings)
        self._write()
        self.start()

    def remove(self) -> None:
        """Stops the broker at once and deletes everything it wrote."""
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    # ------------------------------------------------------------ topics

    @contextlib.contextmanager
    def admin(self, **settings: object) -> Iterator[KafkaAdminClient]:
        """An administrator's client as long as the block lasts."""
        client = KafkaAdminClient(bootstrap_servers=self.bootstrap, **settings)
        try:
            yield client
        finally:
            client.close()

    def create_topic(self, name: str, partitions: int = 1, **settings: object) -> str:
        """Makes a topic, with settings of the topic such as `retention_ms=1000`; returns its name when it can be used."""
        configs = {key: str(value) for key, value in _dotted(settings).items()}
        wanted = {name: {"num_partitions": partitions, "replication_factor": 1, "configs": configs}}
        with self.admin() as admin:
            admin.create_topics(wanted, wait_for_metadata=True)
        return name

    def delete_topics(self, *names: str) -> None:
        """Deletes topics and waits until nobody sees them."""
        deadline = time.monotonic() + 60
        with self.admin() as admin:
            admin.delete_topics(list(names))
            while left := set(names) & set(admin.list_topics()):
                assert time.monotonic() < deadline, f"the broker still lists {left}"
                time.sleep(0.02)

    def topics(self) -> list[str]:
        """The names of all topics but Kafka's own, sorted."""
        with self.admin() as admin:
            return sorted(name for name in admin.list_topics() if not name.startswith("__"))

    def partitions(self, topic: str) -> list[TopicPartition]:
        """The partitions of a topic, ascending."""
        with self.admin() as admin:
            (found,) = admin.describe_topics([topic])
        if found["error_code"]:
            raise for_code(found["error_code"])(topic)
        return [TopicPartition(topic, number) for number in sorted(p["partition_index"] for p in found["partitions"])]

    def add_partitions(self, topic: str, total: int) -> None:
        """Gives a topic more partitions, `total` in all, and waits until they can be used; keys then go to others than before."""
        deadline = time.monotonic() + 60
        with self.admin() as admin:
            admin.create_partitions({topic: total})
            while len(self._led(admin, topic)) < total:
                assert time.monotonic() < deadline, f"{topic} does not get {total} partitions"
                time.sleep(0.02)

    def _led(self, admin: KafkaAdminClient, topic: str) -> list[int]:
        """The partitions that have a leader."""
        (found,) = admin.describe_topics([topic])
        return [each["partition_index"] for each in found["partitions"] if each["leader_id"] >= 0]

    def delete_records(self, topic: str, before: Mapping[int, int]) -> None:
        """Loses the records of partitions (number → offset) before an offset, as retention does."""
        with self.admin() as admin:
            admin.delete_records({TopicPartition(topic, number): offset for number, offset in before.items()})

    def ends(self, topic: str) -> dict[int, int]:
        """The offset behind the last record of every partition, open transactions included."""
        return self._offsets(topic, OffsetSpec.LATEST)

    def begins(self, topic: str) -> dict[int, int]:
        """The offset of the first record that is still there, of every partition."""
        return self._offsets(topic, OffsetSpec.EARLIEST)

    def _offsets(self, topic: str, which: OffsetSpec) -> dict[int, int]:
        partitions = self.partitions(topic)
        with self.admin() as admin:
            found = admin.list_partition_offsets(dict.fromkeys(partitions, which))
        return {partition.partition: found[partition].offset for partition in partitions}

    # ------------------------------------------------------------ records

    @contextlib.contextmanager
    def producer(self, **settings: object) -> Iterator[KafkaProducer]:
        """A producer as long as the block lasts; what it sent is there when the block ends."""
        client = KafkaProducer(
            **{"bootstrap_servers": self.bootstrap, "linger_ms": 5, "batch_size": 1 << 18, **settings}
        )
        try:
            yield client
            client.flush()
        finally:
            client.close()

    def produce(
        self,
        topic: str,
        records: Iterable[Content],
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes]] | None = None,
        **settings: object,
    ) -> list[tuple[int, int]]:
        """Sends records in order and returns where each is, (partition, offset).

        Args:
            topic: an existing topic.
            records: keys and values.
            partition: where all go; by default the hash of the key says, as in Java.
            timestamp_ms: of all of them; by default now.
            headers: of all of them.
            **settings: of the producer, such as `compression_type="zstd"`.
        """
        with self.producer(**settings) as producer:
            sent = _send(producer, topic, records, partition=partition, timestamp_ms=timestamp_ms, headers=headers)
        return [(found.partition, found.offset) for found in (future.get(10) for future in sent)]

    def transaction(
        self, topic: str, records: Iterable[Content], *, partition: int | None = None, commit: bool = True
    ) -> None:
        """Sends records in one transaction of the producer, which is committed or aborted; both leave a gap in the offsets."""
        with self.producer(transactional_id=uuid.uuid4().hex) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            _send(producer, topic, records, partition=partition)
            producer.flush()
            if commit:
                producer.commit_transaction()
            else:
                producer.abort_transaction()

    def records(self, *topics: str, seconds: float = 30) -> list[ConsumerRecord]:
        """All committed records of the topics up to their present ends, each partition's in order.

        Raises:
            TimeoutError: They did not come in time, which is so as well while a transaction is open.
        """
        consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap, isolation_level="read_committed", enable_auto_commit=False, group_id=None
        )
        with contextlib.closing(consumer):
            left = {
                p: end for topic in topics for p in self.partitions(topic) for end in [self.ends(topic)[p.partition]]
            }
            consumer.assign(list(left))
            consumer.seek_to_beginning()
            found: list[ConsumerRecord] = []
            for _ in range(int(seconds * 10)):
                if all(consumer.position(partition) >= end for partition, end in left.items()):
                    return [each for each in found if each.offset < left[TopicPartition(each.topic, each.partition)]]
                for records in consumer.poll(100).values():
                    found += records
        raise TimeoutError(f"{topics} were not read to the end in {seconds} s")


def write_properties(path: Path, settings: Mapping[str, object]) -> Path:
    """A Java properties file."""
    form = {True: "true", False: "false"}
    lines = (f"{name}={form[value] if isinstance(value, bool) else value}\n" for name, value in settings.items())
    path.write_text("".join(lines))
    return path


def _dotted(settings: Mapping[str, object]) -> dict[str, object]:
    return {name.replace("_", "."): value for name, value in settings.items()}


def _send(producer: KafkaProducer, topic: str, records: Iterable[Content], **where: Any) -> list[Any]:
    return [producer.send(topic, key=key, value=value, **where) for key, value in records]
