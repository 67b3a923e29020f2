"""What a table is called in the catalog, and where its files may be."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from replicator_sdk.schema import TableId

# What folders cannot hold, what Hadoop's paths give a meaning to, and the dot, by which catalogs join the parts of a name.
_UNSAFE = re.compile(r'[\x00-\x1f\x7f/\\%~:*?"<>|{}\[\]#.`]')


@dataclass(frozen=True, slots=True)
class Identifier:
    """A table's name in its catalog.

    Attributes:
        namespace: The schema, or the database of sources without schemas.
        name: The table.
    """

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}.{self.name}"


def identifier(table: TableId) -> Identifier:
    """The name in the catalog; equal only for tables of equal names."""
    return Identifier(_part(table.folder), _part(table.table))


def _part(name: str) -> str:
    """`name` with each character that a catalog or a folder cannot hold as `~` and two hexadecimal digits a byte."""
    encoded = _UNSAFE.sub(lambda found: "".join(f"~{byte:02X}" for byte in found.group().encode()), name)
    return encoded or "~empty"


def local_path(location: str) -> str | None:
    """The path of a location on this machine's disk; None for any other."""
    if location.startswith("file:"):
        return "/" + location.removeprefix("file:").lstrip("/")
    return None if "://" in location else str(Path(location).expanduser().absolute())
