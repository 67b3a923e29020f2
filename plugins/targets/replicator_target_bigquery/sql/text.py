"""Names and values inside statements."""

from __future__ import annotations

_ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r"}


def name(*parts: str) -> str:
    """A quoted name; several parts are a path. Parts come from `names`, so none holds a backtick."""
    if any("`" in part or "\\" in part or "\n" in part for part in parts):
        raise ValueError("a name with a backtick, backslash or line break")
    return "`" + ".".join(parts) + "`"


def text(value: str) -> str:
    """A STRING literal."""
    return "'" + "".join(_ESCAPES.get(c, c if c.isprintable() else f"\\U{ord(c):08x}") for c in value) + "'"
