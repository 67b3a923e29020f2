"""The settings that decide how Postgres writes values; every connection that reads rows uses exactly these."""

from __future__ import annotations

from typing import Final

SESSION: Final = {
    "client_encoding": "UTF8",
    "datestyle": "ISO",
    "timezone": "UTC",
    "intervalstyle": "iso_8601",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    # No operator or function of a user's schema may replace a built-in one.
    "search_path": "",
    # A policy that hides rows must fail a snapshot, not remove rows from it.
    "row_security": "off",
}
"""`extra_float_digits` 3 writes the shortest text that reads back as the same float."""


def startup_options() -> str:
    """The settings as the `options` of a connection (`-c name=value …`), so that they hold from its first statement."""
    return " ".join(f"-c {name}={value}" for name, value in SESSION.items())
