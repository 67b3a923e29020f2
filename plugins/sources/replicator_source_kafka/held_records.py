"""Records that were read and are not delivered yet, partition by partition, each with the number of its transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import numpy as np

from replicator_sdk.batch import Int64s
from replicator_source_kafka.fetch import Piece
from replicator_source_kafka.ranges import PartitionRange, Place
from replicator_source_kafka.records import Records
from replicator_source_kafka.wire import concatenated

NO_TRANSACTION: Final = -1


@dataclass(slots=True)
class _Held:
    piece: Piece
    numbers: Int64s


class HeldRecords:
    """Pieces of partitions, in order; they leave from the front. Used by one thread."""

    def __init__(self) -> None:
        self._held: dict[Place, list[_Held]] = defaultdict(list)

    def add(self, piece: Piece, numbers: Int64s) -> None:
        """Keep a piece behind what there is of its partition; of each record the number, or `NO_TRANSACTION`."""
        self._held[piece.range.topic, piece.range.partition].append(_Held(piece, numbers))

    def end(self, place: Place) -> int | None:
        """The Kafka offset behind what there is of a partition; None when nothing is."""
        held = self._held.get(place)
        return held[-1].piece.range.end if held else None

    @property
    def nbytes(self) -> int:
        """How much memory keys and values take."""
        pieces = (held.piece.records for of_place in self._held.values() for held in of_place)
        return sum(int(records.key.nbytes + records.value.nbytes) for records in pieces)

    def behind(self, numbers: Collection[int], *, aside: str) -> set[int]:
        """All numbers at or behind the first record of each partition that has one of `numbers`; one topic left aside."""
        found: set[int] = set()
        for place, pieces in self._held.items():
            told = np.concatenate([held.numbers for held in pieces])
            first = None if place[0] == aside else _first(told, numbers)
            if first is not None:
                found |= set(np.unique(told[first:]).tolist())
        return found - {NO_TRANSACTION}

    def release(self, blocked: Collection[int]) -> list[Piece]:
        """Give out what each partition has before its first record with one of these numbers."""
        found = (self._release(place, blocked) for place in list(self._held))
        return [piece for piece in found if piece.range.begin < piece.range.end]

    def _release(self, place: Place, blocked: Collection[int]) -> Piece:
        parts: list[Records] = []
        pieces = self._held.pop(place)
        begin = end = pieces[0].piece.range.begin
        for index, held in enumerate(pieces):
            first = _first(held.numbers, blocked)
            if first is not None:
                ready, rest = _cut(held, first)
                parts.append(ready.records)
                end = ready.range.end
                self._held[place] = [rest, *pieces[index + 1 :]]
                break
            parts.append(held.piece.records)
            end = held.piece.range.end
        return Piece(PartitionRange(*place, begin, end), concatenated(parts, *place))


def _first(numbers: Int64s, wanted: Collection[int]) -> int | None:
    found = np.flatnonzero(np.isin(numbers, list(wanted)))
    return int(found[0]) if len(found) else None


def _cut(held: _Held, first: int) -> tuple[Piece, _Held]:
    """A piece before and from one of its records on."""
    records, whole = held.piece.records, held.piece.range
    middle = int(records.offset[first])
    place = (whole.topic, whole.partition)
    ready = Piece(PartitionRange(*place, whole.begin, middle), records.slice(0, first))
    rest = Piece(PartitionRange(*place, middle, whole.end), records.slice(first, len(records)))
    return ready, _Held(rest, held.numbers[first:])
