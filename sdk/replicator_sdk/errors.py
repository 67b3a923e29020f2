"""Every error a plugin or the runtime raises; the type says the recovery, the message what, where and the next step.

One root, two axes. The *class* is the recovery, decided once where the error is understood:

===================  ============================================  =========
class                what happens next                             exit code
===================  ============================================  =========
RetryableError       reset to the last saved offset, replay        4 when the budget is spent
SnapshotNeededError  the table is copied from scratch              4 when the budget is spent
NeedsUserError       stopped until the user fixes it               3
TableHistoryLost…    as NeedsUserError; the table is copied again  3
DataError            a value cannot be represented; table FAILING  5
SchemaDriftError     a schema change or an edit needs a decision   6
HistoryLostError     the source no longer has the log              7
FencedError          a newer run owns the replicator               8
BugError             a promise of ours is broken                   1
===================  ============================================  =========

Anything that is not a `ReplicatorError` is retried as if it were a `RetryableError`: a reset to the saved offset is safe
whatever failed.
"""

from __future__ import annotations

from typing import ClassVar


class ReplicatorError(Exception):
    """Root of all errors with a code.

    Args:
        message: What happened, in one sentence, without any secret and without row values.
        code: Stable code: `RPL-nnnn`, documented in `docs/errors.md`, for this project; other authors use letters of their own.
        hint: The next step for a person.
        table: The table concerned, as text, when there is one.
        position: The source position concerned, as text, when there is one.
    """

    exit_code: ClassVar[int] = 1
    error_class: ClassVar[str] = "bug"
    retryable: ClassVar[bool] = False

    def __init__(
        self, message: str, *, code: str, hint: str = "", table: str | None = None, position: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.hint = hint
        self.table = table
        self.position = position

    def __str__(self) -> str:
        where = "".join(f" [{name} {value}]" for name, value in self._places() if value)
        text = f"{self.code}: {self.message}{where}"
        if not self.hint:
            return text
        return f"{text} Next: {self.hint}" if text.endswith((".", "!", "?")) else f"{text}. Next: {self.hint}"

    def __reduce__(self) -> tuple[object, ...]:
        """Errors cross process borders (Spark executors), so they pickle with all their parts."""
        return (_rebuild, (type(self), self.message, self.code, self.hint, self.table, self.position))

    def _places(self) -> tuple[tuple[str, str | None], ...]:
        return (("table", self.table), ("position", self.position))


def _rebuild(
    kind: type[ReplicatorError], message: str, code: str, hint: str, table: str | None, position: str | None
) -> ReplicatorError:
    return kind(message, code=code, hint=hint, table=table, position=position)


class RetryableError(ReplicatorError):
    """A fault that may pass by itself: network, lock, quota, a server restarting."""

    exit_code = 4
    error_class = "retryable"
    retryable = True


class SnapshotNeededError(RetryableError):
    """The log alone cannot make the table whole: the runtime forgets its snapshot and copies it again, at one position.

    For a target that meets, in an overlap, an update without some columns of a row it does not have: chunks of an
    interrupted snapshot were read at two positions, and the row moved between them.
    """

    error_class = "snapshot_needed"


class RowsRewrittenError(SnapshotNeededError):
    """A change of structure at the source gave existing rows other values, and the log has neither these nor the change.

    For a reader that finds it beside the log, as a column's type that was changed in PostgreSQL. `table` is always set. The
    pipeline's `ddlPolicies` decide whether an operator is asked before the table is copied.
    """

    error_class = "rows_rewritten"


class NeedsUserError(ReplicatorError):
    """Only a person can fix it: a wrong password, a missing grant or table, a bad setting."""

    exit_code = 3
    error_class = "needs_user"


class TableHistoryLostError(NeedsUserError):
    """The log misses changes of one table: the user repairs the cause, and the runtime copies the table again.

    For a table that left its publication, or whose part of the log was replaced. `table` is always set. The runtime
    records durably that the table needs a new copy before it shows the error; the other tables go on.
    """

    error_class = "table_history_lost"


class ConfigError(NeedsUserError):
    """The pipeline JSON is wrong; `path` is the JSON path of the offending place."""

    error_class = "config"

    def __init__(self, message: str, *, code: str, hint: str = "", path: str = "", **places: str | None) -> None:
        super().__init__(message, code=code, hint=hint, **places)
        self.path = path

    def _places(self) -> tuple[tuple[str, str | None], ...]:
        return (("at", self.path), *super()._places())

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild_config, (self.message, self.code, self.hint, self.path))


def _rebuild_config(message: str, code: str, hint: str, path: str) -> ConfigError:
    return ConfigError(message, code=code, hint=hint, path=path)


class DataError(ReplicatorError):
    """A value cannot be represented at the target under the chosen policy. Never carries the value itself."""

    exit_code = 5
    error_class = "data"


class SchemaDriftError(ReplicatorError):
    """A schema change that the target cannot follow by itself, or an edit that needs an approval; the hint lists the choices."""

    exit_code = 6
    error_class = "schema_drift"


class HistoryLostError(ReplicatorError):
    """The source no longer holds the log after the saved offset, or is another source; only a new snapshot continues."""

    exit_code = 7
    error_class = "source_history_lost"


class FencedError(ReplicatorError):
    """A newer run took the lease; this one must not touch target or state again."""

    exit_code = 8
    error_class = "fenced"


class BugError(ReplicatorError):
    """A promise inside the replicator or a plugin was broken; stops rather than guesses."""
