"""Decides what follows each error: retry, stop one table, or stop the run. No other module decides it."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

from replicator_runtime.engine.run_state.unknown_errors import NEXT_STEP, summary
from replicator_runtime.observability.next_steps import without_copies
from replicator_sdk import DeltaSource
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

if TYPE_CHECKING:
    from replicator_sdk import TableId


class Verdict(enum.Enum):
    """What follows an error."""

    RETRY = "retry"
    """Reset to the last saved offset and replay, after a delay, within the time budget."""
    TABLE = "table"
    """The table named in the error stops; the others continue."""
    STOP = "stop"
    """The run ends; its position in the log is kept."""


def verdict(error: BaseException, *, isolate: bool) -> Verdict:
    """What follows `error`.

    Args:
        error: Anything a source, target or the state raised.
        isolate: Whether one failing table may stop while the others continue.
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


def belongs_to_table(error: Exception, table: TableId, *, isolate: bool) -> bool:
    """Whether `error`, met while `table` alone was asked for, stops this table only. Names it in the error."""
    if isinstance(error, ReplicatorError):
        error.table = error.table or str(table)
    return verdict(error, isolate=isolate) is Verdict.TABLE


def fit_next_step(error: BaseException, source: DeltaSource[Any]) -> None:
    """Have the next step of `error` be one that `source` can do: targets advise a copy of a table, and not every source makes one."""
    if isinstance(error, ReplicatorError) and not makes_copies(source):
        error.hint = without_copies(error.hint)


def makes_copies(source: DeltaSource[Any]) -> bool:
    """Whether the source has a reader of snapshots."""
    return type(source).create_snapshot_reader is not DeltaSource.create_snapshot_reader


def java_ended(error: BaseException) -> RetryableError:
    """The error for an ended Java virtual machine of Spark; `error` is how that was noticed."""
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
            hint="install what the plugin needs, as its page says; `pip check` lists what does not fit together",
        )
    return BugError(
        f"unexpected {summary(error)}",
        code="RPL-9000",
        hint="run again with --log-level debug and report it with the log",
    )


def error_of_table(error: Exception, table: TableId, position: str) -> Exception:
    """`error` with table and position; an exception that is no `ReplicatorError` becomes a `RetryableError`."""
    if isinstance(error, ReplicatorError):
        error.table = error.table or str(table)
        error.position = error.position or position
        return error
    return RetryableError(
        f"the target failed with {summary(error)}",
        code="RPL-4001",
        hint=NEXT_STEP,
        table=str(table),
        position=position,
    )
