"""What is logged, stored and kept of exceptions: never the text of one that no source, target or state has understood, nor rows."""

from __future__ import annotations

import re
import traceback

from replicator_sdk.errors import ReplicatorError, RetryableError

REPEATED = 5
"""After so many failures in a row without progress an unknown exception does not seem to pass by itself."""

_BRIDGES = ("py4j", "pyspark")
_JAVA_CLASS = re.compile(r"^: ([\w.$]+)", re.MULTILINE)
NEXT_STEP = (
    "retried; when it comes again and again it does not pass by itself: fix what it names (a missing folder, a right), or report"
    " it to the author of the plugin, with the log of a run with --log-level debug"
)


def summary(error: BaseException) -> str:
    """What may be shown of `error`: of an unknown one the type and the place, since its text may hold values of rows.

    Errors of the operating system name a file and a reason, and errors of imports a module; both are shown.
    """
    if isinstance(error, ReplicatorError):
        return str(error)
    kind = type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        return f"{kind}: {error.strerror}" + (f" ({error.filename})" if error.filename else "")
    if isinstance(error, ImportError):
        return f"{kind}: {error}"
    return f"{kind}{_java_class(error)}{_place(error)}"


def without_values(error: BaseException) -> None:
    """Let go of the values in the frames of `error`'s traceback, such as the rows of a batch: one that is kept may be kept for days.

    The traceback keeps its lines. Frames that are still executed are left as they are.
    """
    seen: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        found = waiting.pop()
        if found is not None and not any(found is other for other in seen):
            seen.append(found)
            traceback.clear_frames(found.__traceback__)
            waiting += [found.__cause__, found.__context__]


def unexpected(error: BaseException, times: int) -> RetryableError:
    """The error to show while an unknown exception is retried; `times` is how often it came without progress."""
    often = f", {times} times in a row without progress" if times >= REPEATED else ""
    return RetryableError(f"unexpected {summary(error)}{often}", code="RPL-9015", hint=NEXT_STEP)


def _java_class(error: BaseException) -> str:
    """The class of the exception in Spark's virtual machine; the rest of its text is left out."""
    found = _JAVA_CLASS.search(str(error)) if type(error).__module__.startswith("py4j") else None
    return f" ({found[1]})" if found else ""


def _place(error: BaseException) -> str:
    """The module and line that raised it, but for the bridge to Java."""
    place, trace = "", error.__traceback__
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__", "?"))
        if not module.startswith(_BRIDGES):
            place = f" at {module}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place
