"""Holds records that were read but not emitted yet, by partition, each with the number of its transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import numpy as np

from replicator_sdk.batch import Int64s
from replicator_source_kafka.client.fetch import RangeRecords
from replicator_source_kafka.partition_range import PartitionRange, TopicPartition
from replicator_source_kafka.record_batches.decoding import concatenated
from replicator_source_kafka.records import Records

NO_TRANSACTION: Final = -1


@dataclass(slots=True)
class _Held:
    piece: RangeRecords
    numbers: Int64s


class HeldRecords:
    """A queue of records for each partition. Used by one thread."""

    def __init__(self) -> None:
        self._held: dict[TopicPartition, list[_Held]] = defaultdict(list)

    def add(self, piece: RangeRecords, numbers: Int64s) -> None:
        """Append records to their partition; `numbers` has the transaction of each, or `NO_TRANSACTION`."""
        self._held[piece.range.topic, piece.range.partition].append(_Held(piece, numbers))

    def end(self, tp: TopicPartition) -> int | None:
        """The Kafka offset after the held records of a partition; None if there are none."""
        held = self._held.get(tp)
        return held[-1].piece.range.end if held else None

    @property
    def nbytes(self) -> int:
        """The memory that keys and values use."""
        pieces = (held.piece.records for of_partition in self._held.values() for held in of_partition)
        return sum(int(records.key.nbytes + records.value.nbytes) for records in pieces)

    def at_or_after(self, numbers: Collection[int], *, ignored_topic: str) -> set[int]:
        """All numbers at or after the first record of each partition that has one of `numbers`; one topic is ignored."""
        found: set[int] = set()
        for tp, pieces in self._held.items():
            of_records = np.concatenate([held.numbers for held in pieces])
            first = None if tp[0] == ignored_topic else _first(of_records, numbers)
            if first is not None:
                found |= set(np.unique(of_records[first:]).tolist())
        return found - {NO_TRANSACTION}

    def release(self, blocked: Collection[int]) -> list[RangeRecords]:
        """Remove and return the records of each partition before the first one with one of these numbers."""
        found = (self._release(tp, blocked) for tp in list(self._held))
        return [piece for piece in found if piece.range.begin < piece.range.end]

    def _release(self, tp: TopicPartition, blocked: Collection[int]) -> RangeRecords:
        parts: list[Records] = []
        pieces = self._held.pop(tp)
        begin = end = pieces[0].piece.range.begin
        for index, held in enumerate(pieces):
            first = _first(held.numbers, blocked)
            if first is not None:
                ready, rest = _cut(held, first)
                parts.append(ready.records)
                end = ready.range.end
                self._held[tp] = [rest, *pieces[index + 1 :]]
                break
            parts.append(held.piece.records)
            end = held.piece.range.end
        return RangeRecords(PartitionRange(*tp, begin, end), concatenated(parts, *tp))


def _first(numbers: Int64s, wanted: Collection[int]) -> int | None:
    found = np.flatnonzero(np.isin(numbers, list(wanted)))
    return int(found[0]) if len(found) else None


def _cut(held: _Held, first: int) -> tuple[RangeRecords, _Held]:
    """Split held records before the record at index `first`."""
    records, whole = held.piece.records, held.piece.range
    middle = int(records.offset[first])
    tp = (whole.topic, whole.partition)
    ready = RangeRecords(PartitionRange(*tp, whole.begin, middle), records.slice(0, first))
    rest = RangeRecords(PartitionRange(*tp, middle, whole.end), records.slice(first, len(records)))
    return ready, _Held(rest, held.numbers[first:])
