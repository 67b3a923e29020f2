"""What the names of topics say of tables: whose records a topic has, and whether a table's records have one order."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable

from replicator_sdk.schema import TableId
from replicator_source_kafka.offset import KafkaOffset

_UNSAFE = re.compile(r"[^a-zA-Z0-9._-]")


class TopicTables:
    """Remembers the table whose records were read from the topic of the same name. Used by one thread."""

    def __init__(self) -> None:
        self._seen: dict[str, TableId] = {}

    def table_of(
        self, topic: str, here: Iterable[TableId], tables: Collection[TableId], topics: Collection[str]
    ) -> TableId | None:
        """The table of a topic's tombstones; None unless it is certain.

        Args:
            topic: The topic.
            here: The tables of records that were just read from it.
            tables: All known tables.
            topics: All topics that are read.
        """
        for table in here:
            if _tail(topic)[-1] == _safe(table.table):
                self._seen[topic] = table
        if topic in self._seen:
            return self._seen[topic]
        named = [table for table in tables if _is_named(topic, table)]
        alike = [other for other in topics if _tail(other) == _tail(topic)]
        return named[0] if len(named) == 1 and alike == [topic] else None


def tables_by_topic(tables: Collection[TableId], topics: Collection[str]) -> dict[str, TableId] | None:
    """Topic → the only table of these whose records it can hold, of the topics that hold any; None where that is not certain.

    Certain is it where each table has one topic of its name, and no topic the names of two: then no table is routed to a topic
    of another name.
    """
    by_tail: dict[tuple[str, ...], list[str]] = {}
    for topic in topics:
        by_tail.setdefault(_tail(topic), []).append(topic)
    owners: dict[str, TableId] = {}
    for table in tables:
        full = (_safe(table.schema or table.database), _safe(table.table))
        named = by_tail.get(full, []) + by_tail.get(full[-1:], [])
        if len(named) != 1 or named[0] in owners:
            return None
        owners[named[0]] = table
    return owners


class TopicOrder:
    """Says which tables have all their records in one partition, so that the order of their changes is known. Picklable.

    Args:
        position: Names the topics and partitions that are read.
    """

    def __init__(self, position: KafkaOffset) -> None:
        self._partitions = Counter(topic for topic, _ in position.next)
        self._alike = Counter(map(_tail, position.topics))

    def is_known(self, topic: str, table: TableId) -> bool:
        """Whether a record of `table` in `topic` means that all its records are in the same partition.

        Another topic may hold records of the table unless the topic has the table's name, and is the only one with that name.
        """
        if self._partitions[topic] > 1:
            return False
        return len(self._partitions) == 1 or (_is_named(topic, table) and self._alike[_tail(topic)] == 1)


def _is_named(topic: str, table: TableId) -> bool:
    """Whether the topic's name ends with the table's schema (or database) and name, as in Debezium's topic names."""
    tail = _tail(topic)
    return tail == (_safe(table.schema or table.database), _safe(table.table))[-len(tail) :]


def _tail(topic: str) -> tuple[str, ...]:
    return tuple(topic.split(".")[-2:])


def _safe(name: str) -> str:
    """A name as Debezium writes it in names of topics."""
    return _UNSAFE.sub("_", name)
