"""Ends work that no one waits for any more: Spark's jobs, and what a thread of the driver reads."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from replicator_sdk.errors import RetryableError

if TYPE_CHECKING:
    import pyarrow as pa

    from replicator_sdk.snapshot import ChunkReader, SnapshotChunk

GRACE_SECONDS: Final = 5.0
"""How long work may go on after it is asked to stop, so that what is nearly done is not done again."""
_LOOK_SECONDS: Final = 0.2


def never() -> bool:
    """Nothing is stopped."""
    return False


def stopped() -> RetryableError:
    """The error of work that was ended because the run stops; another run does it again."""
    return RetryableError(
        "the work did not end before the run stopped",
        code="RPL-4408",
        hint="nothing to do: the next run does it again",
    )


class StopLimit:
    """Knows when the grace is over. Used by one thread.

    Args:
        is_stopping: Whether the work is to stop.
    """

    def __init__(self, is_stopping: Callable[[], bool]) -> None:
        self._is_stopping = is_stopping
        self._since: float | None = None

    def is_over(self) -> bool:
        """Whether the work was asked to stop so long ago that it is to be ended."""
        if self._since is None and self._is_stopping():
            self._since = time.monotonic()
        return self._since is not None and time.monotonic() - self._since >= GRACE_SECONDS


@contextmanager
def jobs_until_stopped(context: Any, is_stopping: Callable[[], bool]) -> Iterator[None]:
    """Spark's jobs that this thread starts within the block are cancelled some seconds after `is_stopping`; then the block raises.

    Raises:
        RetryableError: RPL-4408 in place of any error of a block whose jobs were cancelled.
    """
    if is_stopping is never:
        yield
        return
    tag, ended, cancelled = f"replicator-{uuid.uuid4().hex}", threading.Event(), threading.Event()

    def watch() -> None:
        limit = StopLimit(is_stopping)
        while not ended.wait(_LOOK_SECONDS):
            if limit.is_over():
                cancelled.set()
                context.cancelJobsWithTag(tag)  # again, until the thread has no job: it may not have begun yet

    watcher = threading.Thread(target=watch, name="stop-jobs", daemon=True)
    context.addJobTag(tag)
    watcher.start()
    try:
        yield
    except Exception as err:
        if cancelled.is_set():
            raise stopped() from err
        raise
    finally:
        ended.set()
        watcher.join()
        context.removeJobTag(tag)


class StoppableReader:
    """Reads chunks in a thread of the driver, until the grace is over.

    Args:
        read: Reads a chunk.
        is_stopping: Whether the work is to stop.
    """

    def __init__(self, read: ChunkReader, is_stopping: Callable[[], bool]) -> None:
        self._read = read
        self._limit = StopLimit(is_stopping)

    def __call__(self, chunk: SnapshotChunk) -> Iterator[pa.RecordBatch]:
        """The rows of the chunk.

        Raises:
            RetryableError: RPL-4408 when the work is to stop.
        """
        for batch in self._read(chunk):
            if self._limit.is_over():
                raise stopped()
            yield batch
