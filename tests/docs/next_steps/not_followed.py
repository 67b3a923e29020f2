"""Errors whose next step names a command that no test follows yet, by what keeps it from being tried."""

from __future__ import annotations

NOT_FOLLOWED: dict[str, tuple[str, ...]] = {
    # The command only shows something: what to do then is for the operator.
    "looks": (
        "RPL-3301",
        "RPL-3505",
        "RPL-3515",
        "RPL-3802",
        "RPL-3808",
        "RPL-3825",
        "RPL-3902",
        "RPL-3970",
        "RPL-4415",
        "RPL-7131",
    ),
    # A version that is ahead of what was saved, a target that reads and cannot repair, values that do not come back, and kept rows.
    "engine": (
        "RPL-1276",
        "RPL-1370",
        "RPL-1373",
        "RPL-6005",
    ),
    # The source `archive`.
    "archive": (
        "RPL-3557",
        "RPL-3559",
    ),
    # Spark.
    "delta": (
        "RPL-5401",
        "RPL-6402",
    ),
    # A server of its own for some.
    "postgres": (
        "RPL-3202",
        "RPL-3211",
        "RPL-3212",
    ),
    # A server of its own for each.
    "mysql": (
        "RPL-3789",
        "RPL-3790",
        "RPL-3795",
        "RPL-3797",
        "RPL-3799",
    ),
    # A race between a repair and a run; a table that is there before a source without copies creates it.
    "bigquery": (
        "RPL-6553",
        "RPL-6575",
    ),
    # It takes a log that the server damaged, or one that no server here writes.
    "damage": (
        "RPL-3205",
        "RPL-3707",
        "RPL-3708",
        "RPL-3709",
        "RPL-3737",
        "RPL-3738",
        "RPL-3739",
        "RPL-3750",
        "RPL-3751",
        "RPL-3788",
        "RPL-3792",
        "RPL-3805",
        "RPL-5020",
    ),
}
