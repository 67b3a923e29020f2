"""Holding records back until the transactions of the source they belong to are whole.

Records of one transaction lie in many topics and partitions, and come at different moments. What was read is held, and given
out up to the first record of a transaction that lacks some. A transaction that is whole but lies behind one that is not, in
any partition, waits with it. Where a window was cut is in its planned end, like all of a window: a replay cuts the same
without asking again.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from replicator_sdk.batch import Int64s
from replicator_sdk.context import DeltaSourceContext
from replicator_sdk.schema import TableId
from replicator_source_kafka.client import Cluster
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.fetch import Piece, read_new
from replicator_source_kafka.formats.format import Format, Part
from replicator_source_kafka.held_records import NO_TRANSACTION, HeldRecords
from replicator_source_kafka.ranges import Place
from replicator_source_kafka.records import Records
from replicator_source_kafka.transaction_topic import is_named, transaction_ends, transaction_ids

_MOST_BYTES: Final = 256 << 20
_REMEMBERED: Final = 10_000


@dataclass(slots=True)
class _Open:
    """A transaction of which something was read and not given out.

    Attributes:
        id: Its id.
        since: How many seconds had been spent reading when the first of it came.
        told: Its events by Debezium's names of tables; None before its end was read.
        found: How many of them were read.
    """

    id: str
    since: float
    told: Mapping[str, int] | None = None
    found: Counter[TableId] = field(default_factory=Counter)


class Transactions:
    """Records that wait for the rest of their transactions. Used by the reader's thread.

    A transaction waits as long as `transactionWaitSeconds` say, or until 256 MB wait. Then what there is of it is given
    out, and `source.transactions_cut` counts it. Events of tables that nobody reads are not waited for.

    Args:
        config: The source's settings, with a `transaction_topic`.
        decoder: The format of the records, each of which is decoded once more than without transactions.
        tables: The tables that are asked for.
        context: The counter.
    """

    def __init__(
        self, config: KafkaConfig, decoder: Format, tables: Collection[TableId], context: DeltaSourceContext
    ) -> None:
        self._topic = config.transaction_topic or ""
        self._patience = config.transaction_wait_seconds
        self._format = decoder
        self._tables = set(tables)
        self._context = context
        self._held = HeldRecords()
        self._open: dict[int, _Open] = {}
        self._numbers: dict[str, int] = {}
        self._done: OrderedDict[str, None] = OrderedDict()
        self._emptied: Counter[TableId] = Counter()
        self._next = 0
        self._seconds = 0.0
        self._may_wait = False

    def read(self, cluster: Cluster, begin: Mapping[Place, int]) -> list[Piece]:
        """What is to be delivered next of some partitions, from some offsets on; empty when nothing is yet."""
        since = time.monotonic()
        pieces = read_new(cluster, self._unread(begin, cluster.fetch_bytes))
        self._seconds += time.monotonic() - since  # a slow target must not shorten the wait
        self._may_wait = bool(pieces)
        return self.whole(pieces)

    def _unread(self, begin: Mapping[Place, int], enough: int) -> dict[Place, int]:
        """Where reading goes on. While much is held, partitions that nothing is held of come first, as long as they have
        something: else one that is far ahead of the others would fill the memory.
        """
        ends = {place: self._held.end(place) for place in begin}
        behind = {place: begin[place] for place, end in ends.items() if end is None}
        if behind and self._may_wait and self._held.nbytes > enough:
            return behind
        return {place: begin[place] if end is None else end for place, end in ends.items()}

    def whole(self, pieces: Iterable[Piece]) -> list[Piece]:
        """Take what was read, in order; returns what is to be delivered now, of each partition what comes next."""
        for piece in pieces:
            self._held.add(piece, self._numbered(piece.records))
        self._give_up()
        blocked = self._blocked()
        for number in [number for number in self._open if number not in blocked]:
            self._finish(number)
        if not self._open:
            self._emptied.clear()
        return self._held.release(blocked)

    # ------------------------------------------------------------ whose records these are

    def _numbered(self, records: Records) -> Int64s:
        numbers = np.full(len(records), NO_TRANSACTION, np.int64)
        if records.topic == self._topic:
            for end in transaction_ends(records):
                numbers[end.index] = number = self._number(end.id)
                if number != NO_TRANSACTION:
                    self._open[number].told = end.events
            return numbers
        for part in self._format.decode(records).parts:
            self._tables.add(part.table)
            self._emptied[part.table] += len(part.truncates)
            if part.transaction is not None:
                numbers[part.index] = self._counted(part)
        return numbers

    def _counted(self, part: Part) -> Int64s:
        """The numbers of a part's changes, which are counted as found."""
        told = transaction_ids(part.transaction).dictionary_encode()
        ids = told.dictionary.to_pylist()
        known = np.array([*map(self._number, ids), NO_TRANSACTION], np.int64)
        numbers: Int64s = known[told.indices.fill_null(len(ids)).to_numpy()]
        for number, count in zip(*np.unique(numbers[numbers >= 0], return_counts=True), strict=True):
            self._open[int(number)].found[part.table] += int(count)
        return numbers

    def _number(self, identity: str) -> int:
        """A transaction's number; none for one that was given out."""
        if identity in self._done:
            return NO_TRANSACTION
        if identity not in self._numbers:
            self._numbers[identity] = self._next
            self._open[self._next] = _Open(identity, self._seconds)
            self._next += 1
        return self._numbers[identity]

    # ------------------------------------------------------------ what has to wait

    def _blocked(self) -> set[int]:
        """The transactions that wait: those that are not whole, and those with a record behind one that waits."""
        blocked = {number for number, each in self._open.items() if not self._is_whole(each)}
        while blocked:
            behind = self._held.behind(blocked, aside=self._topic)
            if behind <= blocked:
                break
            blocked |= behind
        return blocked

    def _is_whole(self, each: _Open) -> bool:
        """Whether its end was read, and every event of tables that are read. An event that empties a table does not say
        whose it is, and counts for all.
        """
        if each.told is None:
            return False
        wanted = [(table, n) for name, n in each.told.items() for table in self._tables if is_named(table, name)]
        return all(each.found[table] + self._emptied[table] >= count for table, count in wanted)

    def _give_up(self) -> None:
        """End the wait for what takes too long, or for all when too much waits."""
        is_full = self._held.nbytes > _MOST_BYTES
        for number, each in list(self._open.items()):
            if (is_full or self._seconds - each.since > self._patience) and not self._is_whole(each):
                if each.found:  # else all its events were given out before
                    self._context.metrics.count("source.transactions_cut")
                self._finish(number)

    def _finish(self, number: int) -> None:
        """Its records pass from now on."""
        identity = self._open.pop(number).id
        del self._numbers[identity]
        self._done[identity] = None
        while len(self._done) > _REMEMBERED:
            self._done.popitem(last=False)
