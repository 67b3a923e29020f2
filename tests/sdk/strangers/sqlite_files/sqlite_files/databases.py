"""A folder for the files of each database."""

from __future__ import annotations

from pathlib import Path

from replicator_sdk import DDLEvent, DDLOperation, TableId


def file_of(folder: Path, table: TableId) -> Path:
    """A table's file."""
    name = f"{table.schema}.{table.table}" if table.schema else table.table
    return folder / table.database / f"{name}.db"


def change_database(folder: Path, event: DDLEvent) -> None:
    """Create the folder of a database, or delete it when this target created it and nothing is in it.

    A file beside the folder says that it did; it is created before the folder and deleted after it.
    """
    place, mark = folder / event.table.database, folder / f".created-{event.table.database}"
    if event.operation is DDLOperation.CREATE_DATABASE:
        if not place.exists():
            mark.touch()
            place.mkdir()
    elif mark.exists() and not (place.exists() and any(place.iterdir())):
        if place.exists():
            place.rmdir()
        mark.unlink()
