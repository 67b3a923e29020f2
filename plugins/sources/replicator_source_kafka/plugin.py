"""The source as the runtime sees it."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from replicator_sdk.assessment import TableAssessor
from replicator_sdk.config import PluginConfig
from replicator_sdk.context import Configurer, DeltaSourceContext
from replicator_sdk.distributed_log import DistributedLog
from replicator_sdk.offset import Offset
from replicator_sdk.registry import TableRegistry
from replicator_sdk.source import DeltaSource, EventEmitter, EventReader, EventReaderDefinition
from replicator_source_kafka.client import LATEST, Cluster
from replicator_source_kafka.client_settings import plain
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.diagnosis import diagnosed
from replicator_source_kafka.offset import KafkaOffset
from replicator_source_kafka.start import find_topics


class KafkaSource(DeltaSource):
    """Debezium's change topics, and keyed topics, in Kafka; see `DeltaSource`.

    There are no snapshots apart from the topics: a connector's own snapshot lies in them, in front of the changes.
    """

    name: ClassVar[str] = "kafka"
    title: ClassVar[str] = "Debezium change topics (any connector) and keyed topics in Kafka"
    config_type: ClassVar[type[PluginConfig]] = KafkaConfig
    offset_type: ClassVar[type[Offset]] = KafkaOffset

    config: KafkaConfig

    def configure(self, configurer: Configurer) -> None:
        """Nothing beyond what the settings model checks, but files that are not there."""
        for name, value in self.config.kafka.items():
            if name.endswith(".location") and not Path(str(plain(value))).is_file():
                hint = "give a file in PEM form"
                configurer.add_failure(f"the file of {name} is not there", path=f"kafka.{name}", hint=hint)

    def identity(self) -> str:
        """The Kafka cluster's id: another cluster's topics are another source, whatever their names."""
        with diagnosed("asking the brokers who they are"), Cluster(self.config) as cluster:
            cluster.topics([])
            return cluster.cluster_id

    def latest_offset(self) -> KafkaOffset:
        """The last stable offset of every partition of the topics there are now."""
        with diagnosed("asking where the topics end"), Cluster(self.config) as cluster:
            topics = find_topics(cluster, self.config)
            places = [place for topic in topics.values() for place in topic.places]
            ends = cluster.offsets(dict.fromkeys(places, LATEST))
            return KafkaOffset({name: topic.id for name, topic in topics.items()}, ends)

    def create_table_registry(self) -> TableRegistry:
        """Tables as the topics' records show them."""
        from replicator_source_kafka.registry import KafkaTableRegistry

        return KafkaTableRegistry(self.config)

    def create_table_assessor(self) -> TableAssessor:
        """Findings about brokers and topics."""
        from replicator_source_kafka.assessment import KafkaTableAssessor

        return KafkaTableAssessor(self.config)

    def create_reader(
        self, definition: EventReaderDefinition, context: DeltaSourceContext, emitter: EventEmitter
    ) -> EventReader:
        """A reader of the topics; it commits no consumer offsets that anything depends on."""
        from replicator_source_kafka.reader import KafkaEventReader

        return KafkaEventReader(self.config, definition, context, emitter)

    def create_distributed_log(
        self, definition: EventReaderDefinition, context: DeltaSourceContext
    ) -> DistributedLog | None:
        """The topics as slices, unless the settings ask for one stream."""
        from replicator_source_kafka.distributed import KafkaLog

        return KafkaLog(self.config, definition, context) if self.config.distributed else None
