"""What tests ask of brokers: topics, offsets, records. One broker or several, whoever runs them."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, OffsetSpec
from kafka.consumer.fetcher import ConsumerRecord
from kafka.errors import for_code

Content: TypeAlias = tuple[bytes | None, bytes | None]
"""Key and value of a record; a value of None is a tombstone."""


class KafkaClient:
    """Topics and records of some brokers, from any thread."""

    @property
    def bootstrap(self) -> str:
        """Their addresses, as `bootstrap.servers` wants them."""
        raise NotImplementedError

    @property
    def cluster_id(self) -> str:
        """Their cluster's id, which a restart keeps."""
        with self.admin() as admin:
            return str(admin.describe_cluster()["cluster_id"])

    # ------------------------------------------------------------ topics

    @contextlib.contextmanager
    def admin(self, **settings: object) -> Iterator[KafkaAdminClient]:
        """An administrator's client as long as the block lasts."""
        client = KafkaAdminClient(bootstrap_servers=self.bootstrap, **settings)
        try:
            yield client
        finally:
            client.close()

    def create_topic(
        self, name: str, partitions: int = 1, *, on: Sequence[Sequence[int]] = (), **settings: object
    ) -> str:
        """Makes a topic; returns its name when it can be used.

        Args:
            name: its name.
            partitions: how many; each on any one broker.
            on: instead, the brokers of each partition, the one that leads first.
            **settings: of the topic, such as `retention_ms=1000`.
        """
        place = {"assignments": dict(enumerate(on))} if on else {"num_partitions": partitions, "replication_factor": 1}
        wanted = {name: {**place, "configs": {key: str(value) for key, value in dotted(settings).items()}}}
        with self.admin() as admin:
            admin.create_topics(wanted, wait_for_metadata=True)
        return name

    def alter_topic(self, name: str, **settings: object) -> None:
        """Gives a topic other settings, such as `cleanup_policy="compact"`."""
        wanted = {key: str(value) for key, value in dotted(settings).items()}
        with self.admin() as admin:
            admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, configs=wanted)])

    def delete_topics(self, *names: str) -> None:
        """Deletes topics and waits until no broker lists them."""
        deadline = time.monotonic() + 180
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
        deadline = time.monotonic() + 180
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
        """The offset after the last record of every partition, open transactions included."""
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
        return [(found.partition, found.offset) for found in (future.get(60) for future in sent)]

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


def dotted(settings: Mapping[str, object]) -> dict[str, object]:
    """Names of settings as Kafka has them, from those that Python allows."""
    return {name.replace("_", "."): value for name, value in settings.items()}


def _send(producer: KafkaProducer, topic: str, records: Iterable[Content], **where: Any) -> list[Any]:
    return [producer.send(topic, key=key, value=value, **where) for key, value in records]
