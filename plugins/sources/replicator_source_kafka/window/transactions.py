"""Holds records back until their transactions of the source are complete.

Records of one transaction are in many topics and partitions, and arrive at different times. Records are held, and released up
to the first record of an incomplete transaction. A complete transaction after an incomplete one in any partition waits as
well. The end of each window is saved (`WindowLog`), so a replay has the same windows without waiting.
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
from replicator_source_kafka.client.cluster import Cluster
from replicator_source_kafka.client.fetch import RangeRecords, read_new
from replicator_source_kafka.client.leader_epochs import LeaderEpochs
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.formats.format import Format, Part
from replicator_source_kafka.partition_range import TopicPartition
from replicator_source_kafka.records import Records
from replicator_source_kafka.window.held_records import NO_TRANSACTION, HeldRecords
from replicator_source_kafka.window.transaction_topic import is_named, transaction_ends, transaction_ids

_MOST_BYTES: Final = 256 << 20
_REMEMBERED: Final = 10_000


@dataclass(slots=True)
class _Open:
    """A transaction with records that are held.

    Attributes:
        id: Its id.
        since: The seconds spent reading before its first record arrived.
        expected: The number of its events by Debezium's names of tables; None before its end was read.
        found: The number of events that were read.
    """

    id: str
    since: float
    expected: Mapping[str, int] | None = None
    found: Counter[TableId] = field(default_factory=Counter)


class Transactions:
    """Records that wait for the rest of their transactions. Used by the reader's thread.

    A transaction waits for `transactionWaitSeconds`, or until 256 MB are held. Then its records are released, and counted
    in `source.transactions_cut`. It does not wait for events of tables that are not read.

    Args:
        config: The source's settings, with a `transaction_topic`.
        decoder: The format of the records, which are decoded here in addition.
        tables: The selected tables.
        context: The counter.
    """

    def __init__(
        self, config: KafkaConfig, decoder: Format, tables: Collection[TableId], context: DeltaSourceContext
    ) -> None:
        self._topic = config.transaction_topic or ""
        self._wait_seconds = config.transaction_wait_seconds
        self._format = decoder
        self._tables = set(tables)
        self._context = context
        self._held = HeldRecords()
        self._open: dict[int, _Open] = {}
        self._numbers: dict[str, int] = {}
        self._done: OrderedDict[str, None] = OrderedDict()
        self._truncates: Counter[TableId] = Counter()
        self._next = 0
        self._seconds = 0.0
        self._may_wait = False

    def read(self, cluster: Cluster, begin: Mapping[TopicPartition, int], epochs: LeaderEpochs) -> list[RangeRecords]:
        """Read from the given offsets, and return the records to emit next; may be empty."""
        since = time.monotonic()
        pieces = read_new(cluster, self._unread(begin, cluster.fetch_bytes), epochs)
        self._seconds += time.monotonic() - since  # a slow target must not shorten the wait
        self._may_wait = bool(pieces)
        return self.add(pieces)

    def _unread(self, begin: Mapping[TopicPartition, int], enough: int) -> dict[TopicPartition, int]:
        """The offsets to read from. While many records are held, only partitions without held records are read, as long
        as those have any: otherwise a partition far ahead of the others would fill the memory.
        """
        ends = {tp: self._held.end(tp) for tp in begin}
        empty = {tp: begin[tp] for tp, end in ends.items() if end is None}
        if empty and self._may_wait and self._held.nbytes > enough:
            return empty
        return {tp: begin[tp] if end is None else end for tp, end in ends.items()}

    def add(self, pieces: Iterable[RangeRecords]) -> list[RangeRecords]:
        """Add records in order; returns the records that can be emitted now, in order for each partition."""
        for piece in pieces:
            self._held.add(piece, self._numbered(piece.records))
        self._release_overdue()
        blocked = self._blocked()
        for number in [number for number in self._open if number not in blocked]:
            self._release(number)
        if not self._open:
            self._truncates.clear()
        return self._held.release(blocked)

    # ------------------------------------------------------------ transactions of records

    def _numbered(self, records: Records) -> Int64s:
        numbers = np.full(len(records), NO_TRANSACTION, np.int64)
        if records.topic == self._topic:
            for end in transaction_ends(records):
                numbers[end.index] = number = self._number(end.id)
                if number != NO_TRANSACTION:
                    self._open[number].expected = end.events
            return numbers
        for part in self._format.decode(records).parts:
            self._tables.add(part.table)
            self._truncates[part.table] += len(part.truncates)
            if part.transaction is not None:
                numbers[part.index] = self._counted(part)
        return numbers

    def _counted(self, part: Part) -> Int64s:
        """The transaction numbers of a part's changes, which are added to the counts."""
        written = transaction_ids(part.transaction).dictionary_encode()
        ids = written.dictionary.to_pylist()
        known = np.array([*map(self._number, ids), NO_TRANSACTION], np.int64)
        numbers: Int64s = known[written.indices.fill_null(len(ids)).to_numpy()]
        for number, count in zip(*np.unique(numbers[numbers >= 0], return_counts=True), strict=True):
            self._open[int(number)].found[part.table] += int(count)
        return numbers

    def _number(self, identity: str) -> int:
        """A transaction's number; `NO_TRANSACTION` if it was released already."""
        if identity in self._done:
            return NO_TRANSACTION
        if identity not in self._numbers:
            self._numbers[identity] = self._next
            self._open[self._next] = _Open(identity, self._seconds)
            self._next += 1
        return self._numbers[identity]

    # ------------------------------------------------------------ waiting transactions

    def _blocked(self) -> set[int]:
        """The transactions that wait: incomplete ones, and those with a record after one of them."""
        blocked = {number for number, each in self._open.items() if not self._is_complete(each)}
        while blocked:
            after = self._held.at_or_after(blocked, ignored_topic=self._topic)
            if after <= blocked:
                break
            blocked |= after
        return blocked

    def _is_complete(self, each: _Open) -> bool:
        """Whether its end was read, and all its events in tables that are read. A TRUNCATE does not contain its
        transaction, and counts for all.
        """
        if each.expected is None:
            return False
        wanted = [(table, n) for name, n in each.expected.items() for table in self._tables if is_named(table, name)]
        return all(each.found[table] + self._truncates[table] >= count for table, count in wanted)

    def _release_overdue(self) -> None:
        """Release transactions that waited too long, or all of them when too many records are held."""
        is_full = self._held.nbytes > _MOST_BYTES
        for number, each in list(self._open.items()):
            if (is_full or self._seconds - each.since > self._wait_seconds) and not self._is_complete(each):
                if each.found:  # otherwise all its events were released before
                    self._context.metrics.count("source.transactions_cut")
                self._release(number)

    def _release(self, number: int) -> None:
        """Stop holding the records of a transaction."""
        identity = self._open.pop(number).id
        del self._numbers[identity]
        self._done[identity] = None
        while len(self._done) > _REMEMBERED:
            self._done.popitem(last=False)
