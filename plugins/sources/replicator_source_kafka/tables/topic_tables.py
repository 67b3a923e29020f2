"""Finds the table of a topic's tombstones, which do not name it: they have no value."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from replicator_sdk.schema import TableId

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


def _is_named(topic: str, table: TableId) -> bool:
    """Whether the topic's name ends with the table's schema (or database) and name, as in Debezium's topic names."""
    tail = _tail(topic)
    return tail == (_safe(table.schema or table.database), _safe(table.table))[-len(tail) :]


def _tail(topic: str) -> tuple[str, ...]:
    return tuple(topic.split(".")[-2:])


def _safe(name: str) -> str:
    """A name as Debezium writes it in names of topics."""
    return _UNSAFE.sub("_", name)
