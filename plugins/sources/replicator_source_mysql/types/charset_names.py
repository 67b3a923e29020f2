"""Character sets by name, alias and collation."""

from __future__ import annotations

from typing import Final

BINARY: Final = "binary"
_ALIASES = {"utf8": "utf8mb3"}
_BYTES = {
    "utf8mb4": 4, "gb18030": 4, "utf16": 4, "utf16le": 4, "utf32": 4, "utf8mb3": 3, "ujis": 3, "eucjpms": 3, "ucs2": 2,
    "gbk": 2, "gb2312": 2, "big5": 2, "sjis": 2, "cp932": 2, "euckr": 2,
}  # fmt: skip
# MariaDB's collations that take the character set of where they are used.
_CONTEXTUAL = ("uca1400_", "default")


def charset_name(name: str) -> str:
    """The one spelling of a character set's name."""
    lower = name.lower()
    return _ALIASES.get(lower, lower)


def collation_charset(collation: str) -> str:
    """The character set of a collation; empty when it has none of its own."""
    lower = collation.lower()
    return "" if lower.startswith(_CONTEXTUAL) else charset_name(lower.partition("_")[0])


def bytes_per_character(charset: str) -> int:
    """The most bytes one character takes."""
    return _BYTES.get(charset_name(charset), 1)
