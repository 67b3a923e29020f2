"""The fetch request, and the part of a broker's answer that is used."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from replicator_source_kafka.partition_range import TopicPartition

READ_COMMITTED: Final = 1
NO_ID: Final = "00000000-0000-0000-0000-000000000000"
_BY_ID: Final = 13
_WITH_ABORTED: Final = 4
_LEAST_SHARE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a broker sent of one partition.

    Attributes:
        tp: The partition.
        begin: The offset that was requested.
        data: Record batches; the last may be cut off.
        aborted: (producer, first offset) of the rolled back transactions in it.
        stable: The last stable offset: all transactions before it are committed or rolled back.
    """

    tp: TopicPartition
    begin: int
    data: bytes
    aborted: tuple[tuple[int, int], ...]
    stable: int


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """How much data a broker may send, and how long it may wait for it.

    Attributes:
        max_bytes: Of all partitions.
        min_bytes: It waits for so much.
        wait_ms: At most so long.
        partition_bytes: Of one partition; None for its share of `max_bytes`, at least a megabyte.
    """

    max_bytes: int
    min_bytes: int
    wait_ms: int
    partition_bytes: int | None = None


def fetch_request(
    topics: Mapping[str, Sequence[TopicPartition]],
    ids: Mapping[str, str],
    begin: Mapping[TopicPartition, int],
    limits: FetchLimits,
) -> Any:
    """The request for records of some partitions from the given offsets.

    Topics are requested by id if all have one, so that the broker refuses a topic that was deleted and created again. Each
    partition may have its share of the answer, at least a megabyte; brokers fill the answer in the order of the request.
    """
    from kafka.protocol.consumer import FetchRequest

    kind = FetchRequest.FetchTopic
    share = limits.partition_bytes or max(_LEAST_SHARE, limits.max_bytes // sum(map(len, topics.values())))
    asked = []
    for name, partitions in topics.items():
        parts = [
            kind.FetchPartition(
                partition=tp[1],
                current_leader_epoch=-1,
                fetch_offset=begin[tp],
                last_fetched_epoch=-1,
                log_start_offset=-1,
                partition_max_bytes=min(share, limits.max_bytes),
            )
            for tp in partitions
        ]
        asked.append(kind(topic=name, topic_id=uuid.UUID(ids[name] or NO_ID), partitions=parts))
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=limits.wait_ms,
        min_bytes=limits.min_bytes,
        max_bytes=limits.max_bytes,
        isolation_level=READ_COMMITTED,
        session_id=0,
        session_epoch=-1,
        topics=asked,
        forgotten_topics_data=[],
        rack_id="",
        min_version=_WITH_ABORTED,
        max_version=_BY_ID if all(ids[name] for name in topics) else _BY_ID - 1,
    )


def fetched(tp: TopicPartition, part: Any, begin: int) -> Fetched:
    """One partition's part of an answer."""
    aborted = tuple((t.producer_id, t.first_offset) for t in part.aborted_transactions or ())
    stable = part.last_stable_offset if part.last_stable_offset >= 0 else part.high_watermark
    return Fetched(tp, begin, bytes(part.records or b""), aborted, int(stable))
