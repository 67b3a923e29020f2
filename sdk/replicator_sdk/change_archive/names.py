"""Where a reader of an archive begins."""

from __future__ import annotations

from typing import Final

FORM: Final = 1
"""Of manifests; a reader refuses a higher one."""
MANIFESTS: Final = "_manifests"
OWNER: Final = "_archive.json"


def manifest_of(number: int) -> str:
    """The manifest of that number."""
    return f"{MANIFESTS}/{number:012d}.json"


def numbers_of(names: list[str]) -> list[int]:
    """The numbers of the manifests among the names of the folder's files, in order. A killed run may have left other files there."""
    parts = (name.partition(".") for name in names)
    return sorted(int(number) for number, _, ending in parts if number.isdecimal() and ending == "json")
