"""What a table's folders hold and what it needs of that, read by `pyiceberg`."""

from __future__ import annotations

import os
import time
from pathlib import Path

from pyiceberg.table import Table

_DAYS = 86_400


def age(folder: Path, days: int = 4) -> None:
    """Have all files below a folder be written so many days ago."""
    then = time.time() - days * _DAYS
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (then, then))


def files(folder: Path) -> set[Path]:
    """All files below a folder, without Hadoop's checksums and what it keeps of its own."""
    found = {path for path in folder.rglob("*") if path.is_file()}
    return {path for path in found if path.suffix != ".crc" and path.name != "version-hint.text"}


def needed(table: Table) -> set[Path]:
    """The files of every snapshot of every branch and tag, and the versions that the newest one names."""
    inspect = table.inspect
    places = {
        *inspect.all_files().column("file_path").to_pylist(),
        *inspect.all_manifests().column("path").to_pylist(),
        *(snapshot.manifest_list for snapshot in table.snapshots()),
        *(entry.metadata_file for entry in table.metadata.metadata_log),
        table.metadata_location,
    }
    return {Path(place.removeprefix("file:")) for place in places}


def checksums_of_nothing(folder: Path) -> list[Path]:
    """Hadoop's checksums of files that are not there."""
    return [path for path in folder.rglob(".*.crc") if not path.with_name(path.name[1:-4]).exists()]
