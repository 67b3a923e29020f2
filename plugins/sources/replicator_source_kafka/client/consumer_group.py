"""Commits the durable offset to a consumer group, so that monitoring sees the lag. It is never read back."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Any, Final

from replicator_sdk.context import DeltaSourceContext
from replicator_source_kafka.client.cluster import Cluster
from replicator_source_kafka.offset import KafkaOffset

_SECONDS: Final = 5.0
_BY_NAME: Final = 9


class GroupOffsetReporter:
    """Commits the durable offset to a group without members, at most every five seconds. Used by one thread.

    Args:
        name: The group's id.
        context: The durable offset, and the counter of failed commits.
    """

    def __init__(self, name: str, context: DeltaSourceContext) -> None:
        self._name = name
        self._context = context
        self._reported: KafkaOffset | None = None
        self._reported_at = 0.0

    def report(self, cluster: Cluster) -> None:
        """Commit the durable offset to the group if it changed and the last commit is some seconds ago.

        A failed commit is counted (`source.group_commits_failed`) and repeated later.

        Raises:
            kafka.errors.AuthorizationError: When the login lacks the right.
        """
        durable = self._context.committed_offset()
        is_new = isinstance(durable, KafkaOffset) and durable != self._reported
        if not is_new or time.monotonic() - self._reported_at < _SECONDS:
            return
        assert isinstance(durable, KafkaOffset)
        self._reported_at = time.monotonic()
        if self._commit(cluster, durable):
            self._reported = durable
        else:
            self._context.metrics.count("source.group_commits_failed")

    def _commit(self, cluster: Cluster, offset: KafkaOffset) -> bool:
        from kafka import errors
        from kafka.protocol.consumer import OffsetCommitRequest

        kind = OffsetCommitRequest.OffsetCommitRequestTopic
        topics: dict[str, list[Any]] = defaultdict(list)
        for (topic, partition), there in offset.next.items():
            topics[topic].append(
                kind.OffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=there,
                    committed_leader_epoch=-1,
                    committed_metadata="",
                )
            )
        request = OffsetCommitRequest(
            group_id=self._name,
            generation_id_or_member_epoch=-1,
            member_id="",
            group_instance_id=None,
            topics=[kind(name=name, partitions=parts) for name, parts in topics.items()],
            min_version=2,
            max_version=_BY_NAME,
        )
        try:
            node = self._coordinator(cluster)
            (response,) = cluster.ask_all({node: request})
            codes = {part.error_code for topic in response.topics for part in topic.partitions}
            for code in codes - {0}:
                raise errors.for_code(code)(self._name)
        except errors.AuthorizationError:
            raise
        except errors.KafkaError:  # the reader handles a broker that is down; the lag may be outdated meanwhile
            return False
        return True

    def _coordinator(self, cluster: Cluster) -> int:
        """The broker that stores the group's offsets."""
        from kafka import errors
        from kafka.protocol.metadata import FindCoordinatorRequest

        request = FindCoordinatorRequest(key=self._name, key_type=0, min_version=1, max_version=3)
        response = cluster.ask(request)
        if response.error_code:
            raise errors.for_code(response.error_code)(self._name)
        return int(response.node_id)
