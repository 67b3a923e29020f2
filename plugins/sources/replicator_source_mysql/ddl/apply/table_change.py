"""What a statement did to one table."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from replicator_sdk.schema import TableId
from replicator_source_mysql.definition import TableDefinition


class ChangeKind(enum.Enum):
    """What happened."""

    CREATED = "created"
    DROPPED = "dropped"
    RENAMED = "renamed"
    """Under another name, and perhaps altered by the same statement."""
    ALTERED = "altered"
    TRUNCATED = "truncated"
    UNKNOWN = "unknown"
    """Touched by a statement that is not understood; its definition is not known from here on."""


@dataclass(frozen=True, slots=True)
class TableChange:
    """What happened to one table.

    Attributes:
        table: Its name after the statement.
        kind: What happened.
        previous_table: Its name before a RENAMED; else None.
        before: Its definition before; None when it did not exist or was not known.
        after: Its definition after; None when it no longer exists or is not known.
        origins: For ALTERED and RENAMED: the names before of the columns that were there before, by their names after.
        rewritten: Columns, by their names after, that the statement defined again and that are or were generated: their
            values may have been computed again.
        needs_snapshot: Whether rows came, went or changed without row events, whatever happened to columns.
        reason: For UNKNOWN, and with `needs_snapshot`: why.
        head: For UNKNOWN: the statement's first words, without literals.
    """

    table: TableId
    kind: ChangeKind
    previous_table: TableId | None = None
    before: TableDefinition | None = None
    after: TableDefinition | None = None
    origins: Mapping[str, str] = field(default_factory=dict)
    rewritten: frozenset[str] = frozenset()
    needs_snapshot: bool = False
    reason: str = ""
    head: str = ""
