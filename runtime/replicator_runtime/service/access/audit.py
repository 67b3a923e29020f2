"""The audit log: each change that was asked for, by whom, and what was answered. Entries are kept for 90 days."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from sqlalchemy import delete, select
from ulid import ULID

from replicator_runtime.service.store.tables import AuditEntry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replicator_runtime.service.store.database import Database

KEPT = timedelta(days=90)
NOT_ANSWERED = 0
"""The status of a change that is under way, or whose service has ended before it was answered."""
_LONGEST_PATH = 1024


def begin_entry(database: Database, *, by: str, operation: str, namespace: str, path: str) -> str:
    """Note that a change was asked for, before it is carried out; gives the entry's id."""
    entry = AuditEntry(
        entry_id=str(ULID()),
        at=datetime.now(UTC),
        namespace=namespace,
        by=by,
        operation=operation,
        path=path[:_LONGEST_PATH],
        status=NOT_ANSWERED,
        code="",
    )
    with database.session() as session:
        session.add(entry)
    return entry.entry_id


def end_entry(database: Database, entry_id: str, *, status: int, code: str) -> None:
    """Note what was answered."""
    with database.session() as session:
        entry = session.get(AuditEntry, entry_id)
        if entry is not None:
            entry.status, entry.code = status, code


def delete_old_entries(database: Database) -> None:
    """Delete what is older than 90 days; its cost is that of what it deletes."""
    # An entry's id begins with its time.
    first_kept = str(ULID.from_datetime(datetime.now(UTC) - KEPT))
    with database.session() as session:
        session.execute(delete(AuditEntry).where(AuditEntry.entry_id < first_kept))


def list_entries(
    database: Database, *, limit: int, after: str | None = None, namespace: str | None = None
) -> Sequence[AuditEntry]:
    """At most `limit` entries, the newest first.

    Args:
        database: The service's.
        limit: So many.
        after: Those older than the entry with this id.
        namespace: Of this one only.
    """
    wanted = select(AuditEntry).order_by(AuditEntry.entry_id.desc()).limit(limit)
    if after is not None:
        wanted = wanted.where(AuditEntry.entry_id < after)
    if namespace is not None:
        wanted = wanted.where(AuditEntry.namespace == namespace)
    with database.session() as session:
        return session.scalars(wanted).all()
