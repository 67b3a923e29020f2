"""Errors whose next step names a command that no test follows yet, by what keeps it from being tried."""

from __future__ import annotations

NOT_FOLLOWED: dict[str, tuple[str, ...]] = {
    # The command only shows something, and the error takes a race, or a plugin that has none of its own.
    "looks": (
        "RPL-3808",
        "RPL-3902",
        "RPL-4415",
        "RPL-6575",
    ),
    # A table that was ahead of an offset which a later run saved.
    "engine": ("RPL-1276",),
    # The source `archive`: a column's values that the source converts otherwise than Arrow.
    "archive": ("RPL-3559",),
    # A table that the target has before a source that copies no tables creates it.
    "created": (
        "RPL-6402",
        "RPL-6553",
    ),
    # Iceberg: the steps are those of the Delta target's errors, which tests follow.
    "iceberg": (
        "RPL-3426",
        "RPL-3439",
        "RPL-4428",
        "RPL-5421",
        "RPL-5425",
        "RPL-6422",
        "RPL-6423",
        "RPL-6424",
        "RPL-6425",
        "RPL-6426",
        "RPL-6427",
        "RPL-6428",
        "RPL-6429",
        "RPL-6430",
        "RPL-8420",
    ),
    # Rollbacks and distributed transactions that the start, or the server, does not let into the log.
    "mysql": (
        "RPL-3789",
        "RPL-3795",
        "RPL-3797",
    ),
    # It takes a log that the server damaged, or a history that does not fit it.
    "damage": (
        "RPL-3751",
        "RPL-3792",
    ),
}
