"""The names of folders and files in the archive."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

if TYPE_CHECKING:
    from replicator_sdk import TableId

COPIES: Final = "_copies"
"""Has a note for each copy whose rows no manifest names yet."""
_LONGEST: Final = 200


def folder_of(table: TableId) -> str:
    """The table's folder: its full name, in which anything but letters, digits, `_` and `-` is written as `%XX`."""
    parts = (table.database, table.schema, table.table) if table.schema else (table.database, table.table)
    name = ".".join(quote(part, safe="").replace(".", "%2E").replace("~", "%7E") for part in parts)
    return name if len(name) <= _LONGEST else f"{name[:_LONGEST]}-{lane_of(table)}"


def lane_of(table: TableId) -> str:
    """What the names of the table's staged files begin with."""
    return hashlib.sha256(json.dumps(table.to_json(), sort_keys=True).encode()).hexdigest()[:24]


def files_of(table: TableId, at: float, first: int, last: int, number: int) -> str:
    """What the names of the files begin with of changes that are archived at a time, by the manifest of that number."""
    hour = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d/%H")
    return f"{folder_of(table)}/{hour}/{first}-{last}.{number}."


def file_name(beginning: str, part: int) -> str:
    """The file of that number among those whose names begin so."""
    return f"{beginning}{part}.parquet" if part else f"{beginning}parquet"


def day_of(file: str) -> str | None:
    """The folder of the day of a file of changes; None for one of a copy."""
    folder = file.rpartition("/")[0]
    return None if "/copies/" in file else folder.rpartition("/")[0]


def note_of(table: TableId, copy: str) -> str:
    """The note of a copy whose rows no manifest names yet."""
    return f"{COPIES}/{lane_of(table)}-{quote(copy, safe='')}.json"


def copy_folder(table: TableId, copy: str) -> str:
    """The folder of a copy's rows."""
    return f"{folder_of(table)}/copies/{quote(copy, safe='')}"
