"""Checks that reading can continue at a saved offset: same topics, nothing lost, no partition added unnoticed."""

from __future__ import annotations

from collections.abc import Mapping

from replicator_sdk.errors import HistoryLostError, NeedsUserError, SchemaDriftError
from replicator_sdk.source import EventReaderDefinition
from replicator_source_kafka.client.cluster import EARLIEST, LATEST, Cluster
from replicator_source_kafka.client.diagnosis import FROM_NEW_SNAPSHOT, NEW_SNAPSHOT
from replicator_source_kafka.client.leader_epochs import check_not_truncated
from replicator_source_kafka.client.metadata import Topic
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.offset import KafkaOffset
from replicator_source_kafka.partition_range import TopicPartition
from replicator_source_kafka.topics.lost_records import after_lost_records
from replicator_source_kafka.topics.selection import find_topics, partitions_of


def check_position(
    cluster: Cluster, config: KafkaConfig, offset: KafkaOffset, definition: EventReaderDefinition | None = None
) -> KafkaOffset:
    """Check that the topics are still those of `offset`, and hold all records after it that are needed.

    Args:
        cluster: The brokers.
        config: The source's settings.
        offset: Where reading is to go on.
        definition: The tables that are read; None where that is unknown, so that all records are needed.

    Returns:
        `offset`, past deleted records that no table needs.

    Raises:
        ReplicatorError: What `check_same_topics`, `after_lost_records`, `check_reach`, `check_not_truncated` and
            `added_partitions` raise.
    """
    topics = find_topics(cluster, config)
    check_same_topics(config, topics, offset)
    if definition is not None:
        begins = cluster.offsets(dict.fromkeys(offset.next, EARLIEST))
        offset = after_lost_records(config, definition, offset, begins)
    check_reach(cluster, offset)
    check_not_truncated(cluster, offset)
    added_partitions(config, topics, offset)
    return offset


def check_same_topics(config: KafkaConfig, topics: Mapping[str, Topic], offset: KafkaOffset) -> None:
    """Check that the topics are those of the offset.

    Raises:
        NeedsUserError: When a topic no longer exists or is no longer selected.
        HistoryLostError: When a topic was deleted and created again.
    """
    for name, known in offset.topics.items():
        if name not in topics:
            raise _missing(config, name, offset)
        if known and topics[name].id and topics[name].id != known:
            raise HistoryLostError(
                f"the topic {name} was deleted and created again: its records after the saved offset are unknown",
                code="RPL-3955",
                position=str(offset),
                hint=NEW_SNAPSHOT,
            )


def _missing(config: KafkaConfig, name: str, offset: KafkaOffset) -> NeedsUserError:
    if config.wants(name):
        return NeedsUserError(
            f"the topic {name} no longer exists, or the login may no longer DESCRIBE it",
            code="RPL-3954",
            position=str(offset),
            hint="grant DESCRIBE on it; if it was deleted, `replicator reset PIPELINE`: every table is emptied and filled from what the"
            " topics have then, and a topic of the same name is read once the connector has written it",
        )
    return NeedsUserError(
        f"the topic {name} is no longer selected",
        code="RPL-3954",
        position=str(offset),
        hint="put it back into `topics` or `topicPattern`; to continue without it, `replicator reset PIPELINE`: every table is emptied"
        " and filled from the topics that are selected",
    )


def check_reach(cluster: Cluster, offset: KafkaOffset) -> None:
    """Check that no records after the offset are lost.

    Raises:
        HistoryLostError: When retention deleted some, or the topic was created again.
    """
    begins = cluster.offsets(dict.fromkeys(offset.next, EARLIEST))
    ends = cluster.offsets(dict.fromkeys(offset.next, LATEST))
    for tp, there in offset.next.items():
        name = f"{tp[0]}-{tp[1]}"
        if there < begins[tp]:
            raise HistoryLostError(
                f"{name} now begins at {begins[tp]}: retention deleted {begins[tp] - there} offsets from {there} on"
                " that were not read",
                code="RPL-3953",
                position=str(offset),
                hint=f"{NEW_SNAPSHOT}; and raise retention.ms of the topic",
            )
        if there > ends[tp]:
            raise HistoryLostError(
                f"{name} ends at {ends[tp]}, before the saved offset {there}: it was created again, or lost records",
                code="RPL-3956",
                position=str(offset),
                hint=FROM_NEW_SNAPSHOT,
            )


def added_partitions(config: KafkaConfig, topics: Mapping[str, Topic], offset: KafkaOffset) -> list[TopicPartition]:
    """Partitions that were added to topics of the offset.

    Raises:
        SchemaDriftError: When there are any and `onNewPartitions` is `fail`.
    """
    known = {name: topic for name, topic in topics.items() if name in offset.topics}
    new = [tp for tp in partitions_of(known) if tp not in offset.next]
    if new and config.on_new_partitions == "fail":
        raise SchemaDriftError(
            f"the topic {new[0][0]} has more partitions than before: keys moved to other partitions, and their older and"
            " newer changes may be read out of order",
            code="RPL-3957",
            position=str(offset),
            hint="if the topic was read to its end before partitions were added, set onNewPartitions to read; otherwise"
            f" {FROM_NEW_SNAPSHOT}",
        )
    return new
