"""Errors whose next step names a command that no test follows yet, by what keeps it from being tried."""

from __future__ import annotations

NOT_FOLLOWED: dict[str, tuple[str, ...]] = {
    # It takes a log that the server damaged, or a history that does not fit it.
    "damage": (
        "RPL-3751",
        "RPL-3792",
    ),
}
