"""Reading a range of one partition, or whatever there is of several."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from replicator_sdk.errors import ReplicatorError, RetryableError
from replicator_source_kafka.client import Cluster
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.diagnosis import diagnosed
from replicator_source_kafka.fetch_request import Fetched
from replicator_source_kafka.ranges import PartitionRange, Place
from replicator_source_kafka.records import Records
from replicator_source_kafka.wire import (
    RecordBatch,
    between,
    committed,
    concatenated,
    read_batches,
    record_blocks,
    records_of,
)

_PATIENCE_SECONDS: Final = 30.0
_BLOCK_BYTES: Final = 16 << 20
_LEAST_BYTES: Final = 256 << 10
_MARGIN: Final = 1.25


@dataclass(frozen=True, slots=True)
class Piece:
    """Records that were read, and the range they are all the records of."""

    range: PartitionRange
    records: Records


def read_range(config: KafkaConfig, ids: Mapping[str, str], wanted: PartitionRange) -> Records:
    """All committed records of a range, over a connection of its own: what an executor calls.

    Args:
        config: The source's settings.
        ids: Topic → id, so that a topic created anew is refused.
        wanted: What to read.

    Raises:
        HistoryLostError: When the broker has some of them no more.
        ReplicatorError: When it cannot be read.
    """
    with diagnosed(f"reading {wanted}"), Cluster(config) as cluster:
        cluster.pin(ids)
        (piece,) = read_ranges(cluster, [wanted])
        return piece.records


def read_new(cluster: Cluster, begin: Mapping[Place, int]) -> list[Piece]:
    """What there is behind some places, up to about `fetch.max.bytes`; waits a moment for it to come.

    Each partition gets its share first; as long as there is room, those that have more go on.
    """
    found: dict[Place, list[Records]] = {}
    places, room, wait = dict(begin), cluster.fetch_bytes, None
    at = dict(begin)
    while places and room > 0:
        answers = cluster.fetch({place: at[place] for place in places}, max_bytes=room, wait_ms=wait)
        places, wait = {}, 0
        for fetched in answers:
            place, batches = fetched.place, _batches(fetched)
            room -= len(fetched.data)
            end = _end(fetched, batches)
            if end == fetched.begin:
                continue
            found.setdefault(place, []).append(_records(fetched, batches, PartitionRange(*place, fetched.begin, end)))
            at[place] = end
            if end < fetched.stable:
                places[place] = end
    pieces = [
        Piece(PartitionRange(*place, begin[place], at[place]), concatenated(parts, *place))
        for place, parts in found.items()
    ]
    return pieces or _passed(cluster, begin)


def _passed(cluster: Cluster, begin: Mapping[Place, int]) -> list[Piece]:
    """Ranges behind which the log ends and in which no record is left, though it was not read to its end."""
    behind = {place for place, end in cluster.offsets(dict.fromkeys(begin, -1)).items() if end > begin[place]}
    pieces = []
    for place in behind:
        (fetched,) = cluster.fetch({place: begin[place]}, wait_ms=0)
        if not fetched.data and fetched.stable > fetched.begin:
            wanted = PartitionRange(*place, fetched.begin, fetched.stable)
            pieces.append(Piece(wanted, _records(fetched, [], wanted)))
    return pieces


def read_ranges(cluster: Cluster, wanted: Iterable[PartitionRange]) -> list[Piece]:
    """Exactly the records of some ranges that were planned before."""
    ranges = list(wanted)
    open_ranges = {(r.topic, r.partition): r for r in ranges}
    begin = {place: r.begin for place, r in open_ranges.items()}
    found: dict[Place, list[Records]] = {place: [] for place in begin}
    since = time.monotonic()
    while begin:
        is_alone = len(begin) == 1  # else its share of the answer may have been nothing
        for fetched in cluster.fetch(begin):
            place, batches = fetched.place, _batches(fetched)
            end = min(_end(fetched, batches, is_alone=is_alone), open_ranges[place].end)
            if end > fetched.begin:
                part = PartitionRange(*place, fetched.begin, end)
                found[place].append(_records(fetched, batches, part))
                begin[place], since = end, time.monotonic()
            if end >= open_ranges[place].end:
                del begin[place]
        begin = _rotated(begin)
        if time.monotonic() - since > _PATIENCE_SECONDS:
            raise _stuck(begin)
    return [Piece(r, concatenated(found[r.topic, r.partition], r.topic, r.partition)) for r in ranges]


def stream_range(cluster: Cluster, wanted: PartitionRange, expected_bytes: int) -> Iterator[Records]:
    """Exactly the records of a range that was planned before, in blocks: in memory are one of them and one answer as it came.

    Args:
        cluster: Where they are.
        wanted: Which.
        expected_bytes: About how many bytes they are at the broker: no answer holds much more than is wanted.
    """
    place, begin, since = (wanted.topic, wanted.partition), wanted.begin, time.monotonic()
    a_record = expected_bytes / max(1, wanted.end - wanted.begin)
    while begin < wanted.end:
        most = int((wanted.end - begin) * a_record * _MARGIN) + _LEAST_BYTES
        (fetched,) = cluster.fetch({place: begin}, max_bytes=min(most, cluster.fetch_bytes))
        batches = _batches(fetched)
        end = min(_end(fetched, batches, is_alone=True), wanted.end)
        if end > begin:
            with _at(fetched):
                for block in record_blocks(_needed(fetched, batches, end), *place, _BLOCK_BYTES):
                    yield between(block, begin, end)
            begin, since = end, time.monotonic()
        elif time.monotonic() - since > _PATIENCE_SECONDS:
            raise _stuck({place: begin})


def bytes_a_record(cluster: Cluster, place: Place, begin: int, *, sample_bytes: int) -> float:
    """About how many bytes an offset takes at the broker behind `begin`; 0 when there is nothing."""
    (fetched,) = cluster.fetch({place: begin}, max_bytes=sample_bytes, wait_ms=0)
    batches = _batches(fetched)
    return len(fetched.data) / max(1, batches[-1].next_offset - begin) if batches else 0.0


def _batches(fetched: Fetched) -> list[RecordBatch]:
    """The batches of an answer; what is wrong with one is an error at its place."""
    with _at(fetched):
        return list(read_batches(fetched.data))


@contextmanager
def _at(fetched: Fetched) -> Iterator[None]:
    """Errors without a place are at this answer's."""
    try:
        yield
    except ReplicatorError as error:
        topic, partition = fetched.place
        error.position = error.position or f"{topic}-{partition}@{fetched.begin}"
        raise


def _end(fetched: Fetched, batches: list[RecordBatch], *, is_alone: bool = False) -> int:
    """Behind which offset reading goes on: records that were compacted away or rolled back are passed, too."""
    if batches:
        return min(batches[-1].next_offset, max(fetched.stable, fetched.begin))
    return max(fetched.stable, fetched.begin) if is_alone and not fetched.data else fetched.begin


def _records(fetched: Fetched, batches: list[RecordBatch], wanted: PartitionRange) -> Records:
    """The records of one answer; the first batch may begin before the range."""
    with _at(fetched):
        needed = _needed(fetched, batches, wanted.end)
        return between(records_of(needed, *fetched.place), wanted.begin, wanted.end)


def _needed(fetched: Fetched, batches: list[RecordBatch], end: int) -> list[RecordBatch]:
    """The batches with records in front of `end` that count; all of an answer lie behind its beginning."""
    return [batch for batch in committed(batches, fetched.aborted) if batch.base_offset < end]


def _rotated(begin: Mapping[Place, int]) -> dict[Place, int]:
    """Another partition comes first the next time."""
    places: Iterator[Place] = iter(begin)
    first = next(places, None)
    return {} if first is None else {**{place: begin[place] for place in places}, first: begin[first]}


def _stuck(begin: Mapping[Place, int]) -> RetryableError:
    topic, partition = next(iter(begin))
    return RetryableError(
        "the broker sends nothing of a range that was there",
        code="RPL-3969",
        position=f"{topic}-{partition}@{begin[topic, partition]}",
        hint="the attempt is repeated; if it stays, look at the broker",
    )


def records_behind(cluster: Cluster, place: Place, begin: int, *, max_bytes: int) -> Records:
    """Some records of one partition from `begin` on, for a look at them; there may be none."""
    (fetched,) = cluster.fetch({place: begin}, max_bytes=max_bytes, wait_ms=0)
    batches = _batches(fetched)
    return _records(fetched, batches, PartitionRange(*place, begin, max(begin, fetched.stable)))
