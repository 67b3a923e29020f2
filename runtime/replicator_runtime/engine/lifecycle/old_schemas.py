"""Forgets the schemas of tables that nothing reads by any more: those that ended before the oldest offset that is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection

    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_sdk import Offset

_FEW: Final = 4
"""So many of a table stay without a look at the saved offsets."""


class _Run(Protocol):
    """What is used of the run here."""

    def oldest_offset(self) -> Offset | None:
        """The oldest offset that is kept."""


def forget_old_schemas(run: _Run, records: Collection[TableRecord]) -> None:
    """Forget the schemas of these tables that no replay and no rewind needs; durable with the next save of the table store.

    Called at an attempt's start for all tables, and for each table whose schema has changed: an attempt may last for months.
    """
    if all(len(record.schemas) <= _FEW for record in records):
        return
    oldest = run.oldest_offset()
    for record in records:
        if oldest is not None and not record.copying:
            record.forget_schemas_before(oldest)
