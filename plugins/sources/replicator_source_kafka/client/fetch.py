"""Reads a range of one partition, or what is available of several partitions."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from replicator_sdk.errors import ReplicatorError, RetryableError
from replicator_source_kafka.client.cluster import Cluster, EpochAt
from replicator_source_kafka.client.diagnosis import diagnosed
from replicator_source_kafka.client.fetch_request import Fetched
from replicator_source_kafka.client.leader_epochs import LeaderEpochs
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.partition_range import PartitionRange, TopicPartition
from replicator_source_kafka.record_batches.decoding import (
    RecordBatch,
    between,
    committed,
    concatenated,
    read_batches,
    record_blocks,
    records_of,
)
from replicator_source_kafka.records import Records

_PATIENCE_SECONDS: Final = 30.0
_BLOCK_BYTES: Final = 16 << 20
_LEAST_BYTES: Final = 256 << 10
_MARGIN: Final = 1.25


@dataclass(frozen=True, slots=True)
class RangeRecords:
    """A range of a partition, and all its records."""

    range: PartitionRange
    records: Records


def read_range(config: KafkaConfig, ids: Mapping[str, str], wanted: PartitionRange) -> Records:
    """All committed records of a range, read over a new connection, as executors do.

    Args:
        config: The source's settings.
        ids: Topic → id, so that a topic that was created again is refused.
        wanted: What to read.

    Raises:
        ReplicatorError: When the range cannot be read, or the broker no longer has some of it.
    """
    with diagnosed(f"reading {wanted}"), Cluster(config) as cluster:
        cluster.pin(ids)
        (piece,) = read_ranges(cluster, [wanted], LeaderEpochs())
        return piece.records


def read_new(cluster: Cluster, begin: Mapping[TopicPartition, int], epochs: LeaderEpochs) -> list[RangeRecords]:
    """The records available from the given offsets, up to about `fetch.max.bytes`; waits briefly if there are none.

    Every partition gets its share first. Partitions with more records are read further as long as the limit allows.

    Raises:
        HistoryLostError: When a partition lost records before those that it has now; see `LeaderEpochs.follow`.
    """
    found: dict[TopicPartition, list[Records]] = {}
    partitions, left, wait = dict(begin), cluster.fetch_bytes, None
    at = dict(begin)
    while partitions and left > 0:
        answers = cluster.fetch({tp: at[tp] for tp in partitions}, max_bytes=left, wait_ms=wait)
        partitions, wait = {}, 0
        for fetched, batches in _followed(cluster, answers, epochs):
            tp = fetched.tp
            left -= len(fetched.data)
            end = _end(fetched, batches)
            if end == fetched.begin:
                continue
            found.setdefault(tp, []).append(_records(fetched, batches, PartitionRange(*tp, fetched.begin, end)))
            at[tp] = end
            if end < fetched.stable:
                partitions[tp] = end
    pieces = [
        RangeRecords(PartitionRange(*tp, begin[tp], at[tp]), concatenated(parts, *tp)) for tp, parts in found.items()
    ]
    return pieces or _passed(cluster, begin)


def _passed(cluster: Cluster, begin: Mapping[TopicPartition, int]) -> list[RangeRecords]:
    """The ranges up to the end of the log that hold no records any more, since all were compacted or rolled back."""
    unread = {tp for tp, end in cluster.offsets(dict.fromkeys(begin, -1)).items() if end > begin[tp]}
    pieces = []
    for tp in unread:
        (fetched,) = cluster.fetch({tp: begin[tp]}, wait_ms=0)
        if not fetched.data and fetched.stable > fetched.begin:
            wanted = PartitionRange(*tp, fetched.begin, fetched.stable)
            pieces.append(RangeRecords(wanted, _records(fetched, [], wanted)))
    return pieces


def read_ranges(cluster: Cluster, wanted: Iterable[PartitionRange], epochs: LeaderEpochs) -> list[RangeRecords]:
    """All records of ranges that were planned before, and no others.

    Raises:
        HistoryLostError: When a partition lost records before those that it has now; see `LeaderEpochs.follow`.
    """
    ranges = list(wanted)
    open_ranges = {(r.topic, r.partition): r for r in ranges}
    begin = {tp: r.begin for tp, r in open_ranges.items()}
    found: dict[TopicPartition, list[Records]] = {tp: [] for tp in begin}
    since = time.monotonic()
    while begin:
        is_alone = len(begin) == 1  # otherwise its share of the answer may have been zero bytes
        for fetched, batches in _followed(cluster, cluster.fetch(begin), epochs):
            tp = fetched.tp
            end = min(_end(fetched, batches, is_alone=is_alone), open_ranges[tp].end)
            if end > fetched.begin:
                part = PartitionRange(*tp, fetched.begin, end)
                found[tp].append(_records(fetched, batches, part))
                begin[tp], since = end, time.monotonic()
            if end >= open_ranges[tp].end:
                del begin[tp]
        begin = _rotated(begin)
        if time.monotonic() - since > _PATIENCE_SECONDS:
            raise _stuck(begin)
    return [RangeRecords(r, concatenated(found[tp], *tp)) for tp, r in open_ranges.items()]


def stream_range(cluster: Cluster, wanted: PartitionRange, expected_bytes: int) -> Iterator[Records]:
    """All records of a range that was planned before, in blocks.

    One block and one undecoded answer are in memory at a time.

    Args:
        cluster: The brokers.
        wanted: The range.
        expected_bytes: Its estimated size at the broker, which limits the size of answers.
    """
    tp, begin, since = (wanted.topic, wanted.partition), wanted.begin, time.monotonic()
    epochs = LeaderEpochs()
    a_record = expected_bytes / max(1, wanted.end - wanted.begin)
    while begin < wanted.end:
        most = int((wanted.end - begin) * a_record * _MARGIN) + _LEAST_BYTES
        answers = cluster.fetch({tp: begin}, max_bytes=min(most, cluster.fetch_bytes))
        ((fetched, batches),) = _followed(cluster, answers, epochs)
        end = min(_end(fetched, batches, is_alone=True), wanted.end)
        if end > begin:
            with _at(fetched):
                for block in record_blocks(_needed(fetched, batches, end), *tp, _BLOCK_BYTES):
                    yield between(block, begin, end)
            begin, since = end, time.monotonic()
        elif time.monotonic() - since > _PATIENCE_SECONDS:
            raise _stuck({tp: begin})


def bytes_per_record(cluster: Cluster, tp: TopicPartition, begin: int, *, sample_bytes: int) -> float:
    """The estimated size of a record at the broker, from a sample after `begin`; 0 when there is none."""
    (fetched,) = cluster.fetch({tp: begin}, max_bytes=sample_bytes, wait_ms=0)
    batches = _batches(fetched)
    return len(fetched.data) / max(1, batches[-1].next_offset - begin) if batches else 0.0


def _followed(
    cluster: Cluster, answers: Iterable[Fetched], epochs: LeaderEpochs
) -> list[tuple[Fetched, list[RecordBatch]]]:
    """Answers with their batches, whose leader epochs are followed."""
    found = [(fetched, _batches(fetched)) for fetched in answers]
    places = {fetched.tp: EpochAt(fetched.begin, batches[-1].epoch) for fetched, batches in found if batches}
    epochs.follow(cluster, places)
    return found


def _batches(fetched: Fetched) -> list[RecordBatch]:
    """The batches of an answer; an error in one of them names the position."""
    with _at(fetched):
        return list(read_batches(fetched.data))


@contextmanager
def _at(fetched: Fetched) -> Iterator[None]:
    """Add this answer's position to errors that have none."""
    try:
        yield
    except ReplicatorError as error:
        topic, partition = fetched.tp
        error.position = error.position or f"{topic}-{partition}@{fetched.begin}"
        raise


def _end(fetched: Fetched, batches: list[RecordBatch], *, is_alone: bool = False) -> int:
    """The next offset to read, also after records that were compacted away or rolled back."""
    if batches:
        return min(batches[-1].next_offset, max(fetched.stable, fetched.begin))
    return max(fetched.stable, fetched.begin) if is_alone and not fetched.data else fetched.begin


def _records(fetched: Fetched, batches: list[RecordBatch], wanted: PartitionRange) -> Records:
    """The records of one answer; the first batch may begin before the range."""
    with _at(fetched):
        needed = _needed(fetched, batches, wanted.end)
        return between(records_of(needed, *fetched.tp), wanted.begin, wanted.end)


def _needed(fetched: Fetched, batches: list[RecordBatch], end: int) -> list[RecordBatch]:
    """The committed batches with records before `end`. All batches of an answer are after its beginning."""
    return [batch for batch in committed(batches, fetched.aborted) if batch.base_offset < end]


def _rotated(begin: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """The same partitions, with another one first."""
    partitions: Iterator[TopicPartition] = iter(begin)
    first = next(partitions, None)
    return {} if first is None else {**{tp: begin[tp] for tp in partitions}, first: begin[first]}


def _stuck(begin: Mapping[TopicPartition, int]) -> RetryableError:
    topic, partition = next(iter(begin))
    return RetryableError(
        "the broker sends no records of a range that had records",
        code="RPL-3969",
        position=f"{topic}-{partition}@{begin[topic, partition]}",
        hint="the attempt is repeated; if the error persists, check the broker",
    )


def sample_records(cluster: Cluster, tp: TopicPartition, begin: int, *, max_bytes: int) -> Records:
    """A sample of a partition's records from `begin` on; may be empty."""
    (fetched,) = cluster.fetch({tp: begin}, max_bytes=max_bytes, wait_ms=0)
    batches = _batches(fetched)
    return _records(fetched, batches, PartitionRange(*tp, begin, max(begin, fetched.stable)))
