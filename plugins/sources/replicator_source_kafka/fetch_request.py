"""The request for records, and what a broker answers."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from replicator_source_kafka.ranges import Place

READ_COMMITTED: Final = 1
NO_ID: Final = "00000000-0000-0000-0000-000000000000"
_BY_ID: Final = 13
_WITH_ABORTED: Final = 4
_LEAST_SHARE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a broker sent of one partition.

    Attributes:
        place: The partition.
        begin: Where reading was asked to begin.
        data: Record batches; the last may be cut off.
        aborted: (producer, first offset) of transactions in it that were rolled back.
        stable: The last stable offset: up to there everything is decided.
    """

    place: Place
    begin: int
    data: bytes
    aborted: tuple[tuple[int, int], ...]
    stable: int


@dataclass(frozen=True, slots=True)
class Patience:
    """How much a broker may gather, and how long it may wait for it."""

    max_bytes: int
    min_bytes: int
    wait_ms: int


def fetch_request(
    topics: Mapping[str, Sequence[Place]], ids: Mapping[str, str], begin: Mapping[Place, int], patience: Patience
) -> Any:
    """The request for records of some partitions from some offsets on.

    Topics are asked for by id where all have one, so that a topic created anew is refused, not read on. Each partition may
    have its share of the answer, or a megabyte; what comes first in the request comes first in the answer.
    """
    from kafka.protocol.consumer import FetchRequest

    kind = FetchRequest.FetchTopic
    share = max(_LEAST_SHARE, patience.max_bytes // sum(map(len, topics.values())))
    asked = []
    for name, places in topics.items():
        parts = [
            kind.FetchPartition(
                partition=place[1],
                current_leader_epoch=-1,
                fetch_offset=begin[place],
                last_fetched_epoch=-1,
                log_start_offset=-1,
                partition_max_bytes=min(share, patience.max_bytes),
            )
            for place in places
        ]
        asked.append(kind(topic=name, topic_id=uuid.UUID(ids[name] or NO_ID), partitions=parts))
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=patience.wait_ms,
        min_bytes=patience.min_bytes,
        max_bytes=patience.max_bytes,
        isolation_level=READ_COMMITTED,
        session_id=0,
        session_epoch=-1,
        topics=asked,
        forgotten_topics_data=[],
        rack_id="",
        min_version=_WITH_ABORTED,
        max_version=_BY_ID if all(ids[name] for name in topics) else _BY_ID - 1,
    )


def fetched(place: Place, part: Any, begin: int) -> Fetched:
    """One partition's part of an answer."""
    aborted = tuple((t.producer_id, t.first_offset) for t in part.aborted_transactions or ())
    stable = part.last_stable_offset if part.last_stable_offset >= 0 else part.high_watermark
    return Fetched(place, begin, bytes(part.records or b""), aborted, int(stable))
