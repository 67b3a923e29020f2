"""Which error leads to what: the only place that decides (style.md §3.1, 9)."""

from __future__ import annotations

import enum

from replicator_sdk.errors import (
    BugError,
    ConfigError,
    DataError,
    FencedError,
    HistoryLostError,
    NeedsUserError,
    ReplicatorError,
    RetryableError,
    SchemaDriftError,
)


class Verdict(enum.Enum):
    """What follows an error."""

    RETRY = "retry"
    """Reset to the last saved offset and replay, after a delay, within the time budget."""
    TABLE = "table"
    """The table named in the error stands still; the others go on."""
    STOP = "stop"
    """The run ends; its place in the log is kept."""


def verdict(error: BaseException, *, isolate: bool) -> Verdict:
    """What follows `error`.

    Args:
        error: Anything a source, target or the state raised.
        isolate: Whether one bad table may stand still while others go on (I10).
    """
    if isinstance(error, ImportError):
        return Verdict.STOP  # trying again installs nothing
    if not isinstance(error, ReplicatorError) or isinstance(error, RetryableError):
        return Verdict.RETRY
    if isinstance(error, FencedError | HistoryLostError | ConfigError | BugError):
        return Verdict.STOP
    if isolate and error.table and isinstance(error, DataError | SchemaDriftError | NeedsUserError):
        return Verdict.TABLE
    return Verdict.STOP


def java_ended(error: BaseException) -> RetryableError:
    """What to say when the Java virtual machine of Spark has ended, whatever error that showed itself by."""
    ended = RetryableError(
        "the Java virtual machine of Spark has ended unexpectedly (killed, or out of memory)",
        code="RPL-7207",
        hint="another one is started by itself; if it ends again and again, read Spark's own lines above, and give it more"
        " memory (resources.memoryMB) or the machine less to do",
    )
    ended.__cause__ = error
    return ended


def as_replicator_error(error: BaseException) -> ReplicatorError:
    """`error` itself, or a wrapper that gives an unknown one a code and says that it is unexpected."""
    if isinstance(error, ReplicatorError):
        return error
    if isinstance(error, ImportError):
        return NeedsUserError(
            f"a library is missing or does not fit: {error}",
            code="RPL-9010",
            hint="install what the plugin needs, as its page says; `pip check` tells what does not fit together",
        )
    return BugError(
        f"unexpected {type(error).__name__}: {error}",
        code="RPL-9000",
        hint="run again with --log-level debug and report it with the log",
    )
