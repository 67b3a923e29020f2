"""A target: a SQLite file for each table, with its progress in the same transaction as its rows."""

from __future__ import annotations

from replicator_sdk import DeltaTarget, hookimpl
from sqlite_files.target import SqliteFilesConfig, SqliteFilesTarget

__all__ = ["SqliteFilesConfig", "SqliteFilesTarget", "delta_targets"]


@hookimpl
def delta_targets() -> list[type[DeltaTarget]]:
    """The target."""
    return [SqliteFilesTarget]
