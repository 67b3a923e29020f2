"""Files in a table's folders that may be left of runs which ended before their commit: by name and age, whoever names them now."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from pyarrow import fs

from replicator_target_iceberg.files.data_file import FULL, PAST
from replicator_target_iceberg.files.storage import Storage, opened
from replicator_target_iceberg.naming import local_path

_UUID: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_DATA: Final = re.compile(rf"({PAST})?({FULL})?(level\d+-)?{_UUID}\.parquet|{_UUID}-deletes\.(parquet|puffin)")
"""As this target names its files. Other programs' names have numbers of tasks before or after."""
_METADATA: Final = re.compile(
    rf"{_UUID}-m\d+\.avro|snap-\d+-\d+-{_UUID}\.avro|{_UUID}(\.gz)?\.metadata\.json|{_UUID}-version-hint\.temp"
)
"""As Iceberg's library names what it writes before a commit; a version of a table is none of them."""
_VERSION: Final = re.compile(r"\d+-.+\.metadata\.json|v\d+(\.gz)?\.metadata\.json")
_CHECKSUM: Final = re.compile(r"\.(?P<of>.+)\.crc")


@dataclass(frozen=True, slots=True)
class OldFile:
    """A file that is older than the limit.

    Attributes:
        location: As Hadoop's file systems list it.
        size: In bytes.
        changed: When it was written, in milliseconds since 1970.
    """

    location: str
    size: int
    changed: int


@dataclass(frozen=True, slots=True)
class Folders:
    """What is in a table's folders.

    Attributes:
        old: Files with names of this target and of the library's unfinished commits, older than the limit; most of them are in use.
        versions: Name of each version of a table → its file, or None where it is not older than the limit.
        checksums: Hadoop's checksums of files that are gone, older than the limit.
        place: Of the metadata.
    """

    old: list[OldFile]
    versions: dict[str, OldFile | None]
    checksums: list[OldFile]
    place: str


def look(storage: Storage, metadata: str, until: float) -> Folders:
    """List the folders of data and of metadata; what is in folders below them is not looked at.

    Args:
        storage: The table's files.
        metadata: The folder of its metadata.
        until: The limit, in seconds since 1970.

    Raises:
        OSError: When a folder cannot be listed.
    """
    found = Folders([], {}, [], metadata)
    for name, file, _ in _listed(f"{storage.root}/data", until):
        if file is not None and _DATA.fullmatch(name):
            found.old.append(file)
    listed = _listed(metadata, until)
    there = {name for name, *_ in listed}
    for name, file, is_local in listed:
        if _VERSION.fullmatch(name):
            found.versions[name] = file
        elif file is not None and _METADATA.fullmatch(name):
            found.old.append(file)
        elif file is not None and is_local and (sum_of := _CHECKSUM.fullmatch(name)) and sum_of["of"] not in there:
            found.checksums.append(file)
    return found


def _listed(folder: str, until: float) -> list[tuple[str, OldFile | None, bool]]:
    """Of each file its name, itself where it is older than the limit, and whether it is on this machine's disk."""
    system, path = opened(folder)
    local = local_path(folder)
    prefix = folder if local is None else f"file:{local}"
    found: list[tuple[str, OldFile | None, bool]] = []
    for info in system.get_file_info(fs.FileSelector(path, allow_not_found=True)):
        if info.type is not fs.FileType.File:
            continue
        changed = info.mtime_ns
        is_old = changed is not None and changed < until * 1e9
        file = OldFile(f"{prefix}/{info.base_name}", info.size or 0, (changed or 0) // 1_000_000) if is_old else None
        found.append((info.base_name, file, local is not None))
    return found
