"""The source as the runtime sees it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from replicator_sdk.config import PluginConfig
from replicator_sdk.context import Configurer, DeltaSourceContext
from replicator_sdk.discovery.assessment import TableAssessor
from replicator_sdk.discovery.clean_up import Leftover, NothingToRemove, SourceCleanUp, StoredState
from replicator_sdk.discovery.dataset import Dataset
from replicator_sdk.discovery.source_health import HealthProbe, SourceHealth
from replicator_sdk.discovery.table_registry import TableRegistry
from replicator_sdk.distributed.partitioned_log import DistributedLog
from replicator_sdk.offset import Offset
from replicator_sdk.schema import TableId
from replicator_sdk.source import DeltaSource, EventEmitter, EventReader, EventReaderDefinition
from replicator_source_kafka.client.cluster import LATEST, Cluster
from replicator_source_kafka.client.diagnosis import diagnosed
from replicator_source_kafka.client_settings import plain
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.offset import KafkaOffset
from replicator_source_kafka.topics.position_check import PositionCheck
from replicator_source_kafka.topics.selection import find_topics

if TYPE_CHECKING:
    from replicator_source_kafka.health.probe import ReadsTopics


class KafkaSource(DeltaSource[KafkaConfig]):
    """Debezium's change topics, and keyed topics, in Kafka; see `DeltaSource`.

    The source has no snapshots of its own: a connector's snapshot is in the topics, before the changes.
    """

    name: ClassVar[str] = "kafka"
    title: ClassVar[str] = "Debezium change topics (any connector) and keyed topics in Kafka"
    config_type: ClassVar[type[PluginConfig]] = KafkaConfig
    offset_type: ClassVar[type[Offset]] = KafkaOffset
    _log: ReadsTopics | None = None
    """What was made last to read the topics."""

    def configure(self, configurer: Configurer) -> None:
        """Report files that do not exist; the settings model checks everything else."""
        for name, value in self.config.kafka.items():
            if name.endswith(".location") and not Path(str(plain(value))).is_file():
                hint = "give a file in PEM form"
                configurer.add_failure(f"the file of {name} does not exist", path=f"kafka.{name}", hint=hint)

    def dataset(self, table: TableId) -> Dataset:
        """The name in lineage: the first broker, and the topic where the settings name the table's, else the table's full name."""
        broker = self.config.bootstrap_servers.split(",")[0].strip()
        endings = (f".{table.folder}.{table.table}", f".{table.table}")
        topics = self.config.topics
        found = [topic for ending in endings for topic in topics if f".{topic}".endswith(ending)]
        name = topics[0] if len(topics) == 1 else next(iter(found), super().dataset(table).name)
        return Dataset(f"kafka://{broker}", name)

    def identity(self) -> str:
        """The id of the Kafka cluster: topics of another cluster are another source, even with the same names."""
        with diagnosed("reading the cluster's id"), Cluster(self.config) as cluster:
            cluster.topics([])
            return cluster.cluster_id

    def latest_offset(self) -> KafkaOffset:
        """The last stable offset of every partition of the topics that exist now."""
        with diagnosed("reading the end offsets of the topics"), Cluster(self.config) as cluster:
            topics = find_topics(cluster, self.config)
            partitions = [tp for topic in topics.values() for tp in topic.partitions]
            ends = cluster.offsets(dict.fromkeys(partitions, LATEST))
            return KafkaOffset({name: topic.id for name, topic in topics.items()}, ends)

    def health(self, offset: Offset | None, *, namespace: str, name: str) -> SourceHealth | None:
        """The records after `offset` and how long they are there; brokers have no clock of their own to ask for."""
        with closing(self.create_health_probe(namespace=namespace, name=name)) as probe:
            return probe.ask(offset)

    def create_health_probe(self, *, namespace: str, name: str) -> HealthProbe:  # noqa: ARG002 - part of the contract
        """The same over connections that it keeps."""
        from replicator_source_kafka.health.probe import KafkaHealthProbe

        return KafkaHealthProbe(self.config, lambda: self._log)

    def create_table_registry(self) -> TableRegistry:
        """Tables as found in the topics' records."""
        from replicator_source_kafka.tables.table_registry import KafkaTableRegistry

        return KafkaTableRegistry(self.config)

    def create_table_assessor(self) -> TableAssessor:
        """Findings about brokers and topics."""
        from replicator_source_kafka.assessment.assessor import KafkaTableAssessor

        return KafkaTableAssessor(self.config)

    def check_log(self, offset: Offset, *, namespace: str, name: str) -> None:  # noqa: ARG002 - part of the contract
        """Check that the topics are those of `offset` and have all records after it."""
        assert isinstance(offset, KafkaOffset)
        with diagnosed("looking at the topics"), Cluster(self.config) as cluster:
            PositionCheck(cluster, self.config).check(offset)

    def check_log_of_tables(
        self,
        offset: Offset,
        definition: EventReaderDefinition,
        *,
        namespace: str,  # noqa: ARG002 - part of the contract
        name: str,  # noqa: ARG002 - part of the contract
    ) -> None:
        """The same; what is wrong with a topic that certainly holds one table only concerns that table."""
        assert isinstance(offset, KafkaOffset)
        with diagnosed("looking at the topics"), Cluster(self.config) as cluster:
            PositionCheck(cluster, self.config, definition).check(offset)

    def create_clean_up(
        self,
        *,
        namespace: str,  # noqa: ARG002 - part of the contract
        name: str,  # noqa: ARG002 - part of the contract
        stored: Sequence[StoredState],  # noqa: ARG002 - part of the contract
    ) -> SourceCleanUp | None:
        """Nothing is removed: topics belong to their writers, and a consumer group may be used by others."""
        kept = [Leftover("the topics", stays="they belong to who writes them")]
        if group := self.config.group:
            what, by_hand = f"consumer group {group}", f"kafka-consumer-groups.sh --delete --group {group}"
            kept.append(Leftover(what, by_hand, "the pipeline names it, so that others may use it"))
        return NothingToRemove(*kept)

    def create_reader(
        self, definition: EventReaderDefinition, context: DeltaSourceContext, emitter: EventEmitter
    ) -> EventReader:
        """A reader of the topics. It does not depend on committed consumer offsets."""
        from replicator_source_kafka.window.reader import KafkaEventReader

        self._log = reader = KafkaEventReader(self.config, definition, context, emitter)
        return reader

    def create_distributed_log(
        self, definition: EventReaderDefinition, context: DeltaSourceContext
    ) -> DistributedLog | None:
        """The topics as slices, unless the settings say `distributed: false`."""
        from replicator_source_kafka.slices.distributed_log import KafkaLog

        if not self.config.distributed:
            return None
        self._log = log = KafkaLog(self.config, definition, context)
        return log
