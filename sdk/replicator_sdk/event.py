"""DDL and DML events, one object each: the row-by-row interface for plugin authors.

Built-in plugins move rows in `ChangeBatch`es instead; the emitter collects `DMLEvent`s into such batches.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from replicator_sdk.offset import Offset, Position
from replicator_sdk.schema import Column, TableId, TableSchema


class DDLOperation(enum.StrEnum):
    """What happened to a structure at the source."""

    CREATE_DATABASE = "CREATE_DATABASE"
    DROP_DATABASE = "DROP_DATABASE"
    CREATE_TABLE = "CREATE_TABLE"
    DROP_TABLE = "DROP_TABLE"
    TRUNCATE_TABLE = "TRUNCATE_TABLE"
    ALTER_TABLE = "ALTER_TABLE"
    RENAME_TABLE = "RENAME_TABLE"


class DMLOperation(enum.IntEnum):
    """What happened to a row; the numbers are the codes in `ChangeBatch.op`."""

    INSERT = 1
    UPDATE = 2
    DELETE = 3
    COMMIT = 4
    """End of a transaction; carries no row and is never in a `ChangeBatch`."""


class AlterKind(enum.StrEnum):
    """One step of an ALTER_TABLE."""

    ADD_COLUMN = "ADD_COLUMN"
    DROP_COLUMN = "DROP_COLUMN"
    RENAME_COLUMN = "RENAME_COLUMN"
    RETYPE_COLUMN = "RETYPE_COLUMN"
    RELAX_COLUMN = "RELAX_COLUMN"
    """NOT NULL removed."""
    TIGHTEN_COLUMN = "TIGHTEN_COLUMN"
    """NOT NULL added."""
    CHANGE_KEY = "CHANGE_KEY"


@dataclass(frozen=True, slots=True)
class Alter:
    """One step from the schema before to the schema after; steps apply in order.

    Attributes:
        kind: What changes.
        column: The column after the change; None when it is dropped or only the key changes.
        previous: The column before the change; None when it is added or only the key changes.
        default: The value that rows existing before an ADD_COLUMN have at the source, where the source fills them;
            None is NULL.
    """

    kind: AlterKind
    column: Column | None = None
    previous: Column | None = None
    default: Any = None


@dataclass(frozen=True, slots=True)
class DDLEvent:
    """A change of structure.

    A reader emits it after every change of its table that comes before it in the log and before every one that comes
    after it. After a RENAME_TABLE with a schema, the table's events have its new name in a reader that was given the former
    one; without a schema, with `alters` or `needs_snapshot` the runtime copies the table under its new name. Of
    several tables that are renamed at once and take each other's names, each RENAME_TABLE holds the name before and the
    name after all of it; they are emitted one after another, with no other event or commit between them.

    Attributes:
        offset: The last commit before it (resume there and it comes again).
        operation: What happened.
        table: The table; for CREATE_DATABASE and DROP_DATABASE its `table` is empty.
        schema: The schema after the event; None when the table is gone.
        prev_table: The name before a RENAME_TABLE.
        alters: The steps of an ALTER_TABLE.
        ordinal: Its rank among all events since the last emitted commits, from 0 (see `EventEmitter`).
        transaction_id: The source's transaction; empty where the source does not report it.
        is_snapshot: Whether it belongs to a snapshot.
        source_timestamp: When the source committed it, aware UTC; None when it does not report it.
        sequence_number: Set by the runtime, never by a source.
        position: The table's position once the event is applied; set by the runtime. A target stores it with the
            change and ignores the event when it has stored this position or a later one.
        needs_snapshot: Whether the event changed existing rows in a way the log does not contain (a rewritten column, a
            volatile default); the runtime then copies the table again.
    """

    offset: Offset
    operation: DDLOperation
    table: TableId
    schema: TableSchema | None = None
    prev_table: TableId | None = None
    alters: tuple[Alter, ...] = ()
    ordinal: int = 0
    transaction_id: str = ""
    is_snapshot: bool = False
    source_timestamp: datetime | None = None
    sequence_number: int = 0
    position: Position | None = None
    needs_snapshot: bool = False


@dataclass(frozen=True, slots=True)
class DMLEvent:
    """One change of one row, or a COMMIT.

    Attributes:
        offset: For COMMIT the place after the transaction; for others the last commit before it.
        operation: What happened.
        table: The table; None for COMMIT.
        row: The row after an INSERT or UPDATE, by column name; for a DELETE may repeat the key.
        before: The key, or the whole row, before an UPDATE or DELETE; None when the key did not change.
        unchanged: Columns of an UPDATE the source did not send; the target keeps its own values for them.
        transaction_id: The source's transaction; empty where the source does not report it.
        is_snapshot: Whether the row was read by a snapshot instead of from the log.
        source_timestamp: When the source committed it, aware UTC.
        sequence_number: Set by the runtime, never by a source.
    """

    offset: Offset
    operation: DMLOperation
    table: TableId | None = None
    row: Mapping[str, Any] = field(default_factory=dict)
    before: Mapping[str, Any] | None = None
    unchanged: frozenset[str] = frozenset()
    transaction_id: str = ""
    is_snapshot: bool = False
    source_timestamp: datetime | None = None
    sequence_number: int = 0
