"""Retries actions on a failing store, and raises a typed error when the time is over."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from typing import TypeVar

import stamina

from replicator_sdk.errors import NeedsUserError, ReplicatorError, RetryableError

T = TypeVar("T")

_FIRST_WAIT = 0.05
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_FORBIDDEN_BY_GCS = "Forbidden:"
"""What gcsfs' error begins with when Cloud Storage answers 403; it has neither a number nor a type of its own."""
_FORBIDDEN_BY_AZURE = 403
"""The `status_code` of Azure's errors, which adlfs passes on."""
_NO_FAULT = (ReplicatorError, FileNotFoundError, FileExistsError, IsADirectoryError)


class StoreRetry:
    """Runs an action on a store, repeatedly while it fails with a fault of the store.

    The caller waits meanwhile, so nothing is acknowledged that is not stored. Safe from any
    thread; holds no state.

    Args:
        seconds: How long an action is tried again in all; 0 tries once.
        place: The store's name for messages, without credentials.
    """

    def __init__(self, seconds: float, place: str) -> None:
        self.seconds = seconds
        self.place = place

    def run(self, what: str, action: Callable[[], T], *, wait_for_user: bool = True) -> T:
        """The result of `action`.

        Args:
            what: The action in words, for the error: "save the offset".
            action: Idempotent; may be run any number of times.
            wait_for_user: Whether a full disk or a missing permission is waited for as well. False at the start of a run,
                where an operator reads the error.

        Raises:
            FileNotFoundError: As `action` raised it; like `FileExistsError` an answer, not a fault.
            NeedsUserError: RPL-7103 when the store is full, RPL-7104 when it refuses to be written or read.
            RetryableError: RPL-7105 for every other fault that outlasted the time.
        """

        def again(error: Exception) -> bool:
            return is_fault(error) and (wait_for_user or not _needs_user(error))

        try:
            try:
                return action()  # most succeed, and what follows costs more than a small file
            except Exception as error:
                if self.seconds <= 0 or not again(error):
                    raise
            time.sleep(_FIRST_WAIT)
            for attempt in stamina.retry_context(
                on=again, attempts=None, timeout=self.seconds, wait_initial=_FIRST_WAIT, wait_max=5.0, wait_jitter=0.2
            ):
                with attempt:
                    return action()
        except Exception as error:
            if is_fault(error):
                raise self._typed(error, what, waited=again(error)) from error
            raise
        raise AssertionError("the last attempt returns or raises")

    def _typed(self, error: Exception, what: str, *, waited: bool) -> ReplicatorError:
        tried = f"could not {what} at {self.place}"
        if waited and self.seconds > 0:
            tried += f" for {self.seconds:g} s"
        number = getattr(error, "errno", None)
        if number in _FULL:
            return NeedsUserError(
                f"{tried}: the store is full",
                code="RPL-7103",
                hint="free space there (or raise the quota) and start again; nothing was lost, the position did not move",
            )
        if isinstance(error, NotADirectoryError):
            return NeedsUserError(
                f"{tried}: a part of the path is not a folder", code="RPL-7104", hint="give a folder as offsetBasePath"
            )
        if _needs_user(error):
            return NeedsUserError(
                f"{tried}: access denied or read-only",
                code="RPL-7104",
                hint="give this user the right to read, create, replace and delete files there, then start again",
            )
        reason = getattr(error, "strerror", None) or type(error).__name__
        return RetryableError(
            f"{tried}: {reason}",
            code="RPL-7105",
            hint="check that the store is reachable and healthy, then start again",
        )


def is_fault(error: Exception) -> bool:
    """Whether `error` is a fault of the store, rather than its answer, an error of ours, or a bug."""
    if isinstance(error, _NO_FAULT):
        return False
    # Object store clients raise types of their own; a builtin that is no OSError (TypeError …) is a bug of a program.
    return isinstance(error, OSError) or type(error).__module__.partition(".")[0] not in {
        "builtins",
        "replicator_state",
    }


def _needs_user(error: Exception) -> bool:
    number = getattr(error, "errno", None)
    by_gcs = isinstance(error, OSError) and str(error).startswith(_FORBIDDEN_BY_GCS)
    by_azure = getattr(error, "status_code", None) == _FORBIDDEN_BY_AZURE
    by_name = isinstance(error, PermissionError | NotADirectoryError)
    return by_name or number in _FORBIDDEN | _FULL or by_gcs or by_azure
