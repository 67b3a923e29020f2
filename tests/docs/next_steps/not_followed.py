"""Errors whose next step names a command that no test follows yet, by what keeps it from being tried."""

from __future__ import annotations

NOT_FOLLOWED: dict[str, tuple[str, ...]] = {
    # Of the service and its remote form: tests of the commands that are advised give them, without these errors before.
    "service": (
        "RPL-1501",
        "RPL-1541",
        "RPL-1543",
        "RPL-1545",
        "RPL-1581",
        "RPL-1584",
        "RPL-1585",
        "RPL-1589",
        "RPL-1590",
        "RPL-1591",
        "RPL-1592",
        "RPL-1593",
    ),
    # The command only shows something, and the error takes a race, or a plugin that has none of its own.
    "looks": (
        "RPL-3808",
        "RPL-3902",
        "RPL-4115",
        "RPL-1561",
    ),
    # A table that is deleted at the target while a run writes it.
    "deleted": ("RPL-4113",),
    # A table that was ahead of an offset which a later run saved.
    "engine": ("RPL-1276",),
    # The source `archive`: a column's values that the source converts otherwise than Arrow.
    "archive": ("RPL-3559",),
    # A table that the target has before a source that copies no tables creates it.
    "created": (
        "RPL-6402",
        "RPL-6553",
    ),
    # Iceberg: updates that a copy which was interrupted lacks rows of; and as of "created".
    "iceberg": (
        "RPL-5425",
        "RPL-6422",
    ),
    # A rollback of a transaction of more than 32,768 events that the server writes into the log; rows that lack what no server of today leaves out.
    "mysql": (
        "RPL-3705",
        "RPL-3789",
    ),
    # Delta in the mode merge-on-read: a key that the source changed, and what only MySQL with images that are not whole logs.
    "merge-on-read": ("RPL-5408",),
    # It takes a log that the server damaged, or a history that does not fit it.
    "damage": (
        "RPL-3751",
        "RPL-3792",
    ),
}
