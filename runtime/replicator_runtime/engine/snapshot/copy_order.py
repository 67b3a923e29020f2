"""In which order tables are copied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replicator_runtime.config.selection import glob_matches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_sdk import TableId


class CopyOrder:
    """The pipeline's `snapshot.order`.

    Args:
        entries: Names or patterns, the first to be copied first.
    """

    def __init__(self, entries: Sequence[str]) -> None:
        self._entries = entries

    def sorted(self, records: Sequence[TableRecord]) -> list[TableRecord]:
        """The tables that the first entry matches come first; what none matches comes last. Else the order stays."""
        return sorted(records, key=lambda record: self._rank(record.table))

    def _rank(self, table: TableId) -> int:
        ranks = (rank for rank, entry in enumerate(self._entries) if entry_matches(entry, table))
        return next(ranks, len(self._entries))


def entry_matches(entry: str, table: TableId) -> bool:
    """Whether `table`, `schema.table` or `database.schema.table`, each a name or a pattern, matches a table."""
    whole = [part for part in (table.database, table.schema, table.table) if part]
    parts = entry.split(".")
    return len(parts) <= len(whole) and all(map(glob_matches, parts, whole[-len(parts) :]))
