"""Where the first start begins: the setting `startFrom` as offsets."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from replicator_sdk.errors import NeedsUserError
from replicator_source_kafka.client.cluster import EARLIEST, LATEST, Cluster
from replicator_source_kafka.client.metadata import Topic
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.offset import KafkaOffset
from replicator_source_kafka.partition_range import TopicPartition
from replicator_source_kafka.topics.selection import partitions_of


def resolve_start(cluster: Cluster, config: KafkaConfig, topics: Mapping[str, Topic]) -> KafkaOffset:
    """The setting `startFrom` as offsets.

    Raises:
        NeedsUserError: When it names offsets or partitions that do not exist.
    """
    earliest = dict.fromkeys(partitions_of(topics), EARLIEST)
    chosen = config.start_from
    if chosen == "latest":
        begin = cluster.offsets(dict.fromkeys(earliest, LATEST))
    elif isinstance(chosen, datetime):
        begin = cluster.offsets(dict.fromkeys(earliest, int(chosen.timestamp() * 1000)))
    else:
        begin = cluster.offsets(earliest)
    if isinstance(chosen, dict):
        begin = _chosen(cluster, chosen, begin)
    return KafkaOffset({name: topic.id for name, topic in topics.items()}, begin)


def first_read(
    cluster: Cluster, config: KafkaConfig, begins: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The offset of the first record of each partition that is read at any time, as far as `startFrom` says it.

    Args:
        cluster: The brokers.
        config: The source's settings.
        begins: Where each partition begins.
    """
    chosen = config.start_from
    if isinstance(chosen, datetime):
        return cluster.offsets(dict.fromkeys(begins, int(chosen.timestamp() * 1000)))
    if isinstance(chosen, dict):
        return {tp: max(begin, chosen.get(tp[0], {}).get(tp[1], begin)) for tp, begin in begins.items()}
    return dict(begins)  # what was the latest record at the first start is not known here


def _chosen(
    cluster: Cluster, chosen: Mapping[str, Mapping[int, int]], begin: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    wanted = {(topic, partition): there for topic, parts in chosen.items() for partition, there in parts.items()}
    ends = cluster.offsets(dict.fromkeys(begin, LATEST))
    for tp, there in wanted.items():
        if tp not in begin or not begin[tp] <= there <= ends[tp]:
            span = f"it has {begin[tp]} to {ends[tp]}" if tp in begin else "there is no such partition"
            raise NeedsUserError(
                f"startFrom names offset {there} of {tp[0]}-{tp[1]}: {span}",
                code="RPL-3952",
                hint="choose an offset in between, or `earliest`",
            )
    return {**begin, **wanted}
