"""An engine run in a thread of its own, so that the main thread stays free for signals and progress."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from replicator_runtime.allocator import limit_arenas
from replicator_runtime.engine.run_state.progress import Progress
from replicator_runtime.engine.worker import RunResult, run

if TYPE_CHECKING:
    from replicator_runtime.config import Pipeline
    from replicator_runtime.engine.run_state.run import Run
    from replicator_runtime.engine.run_state.spark_handle import SparkHandle

ResultT = TypeVar("ResultT")


class InThread(Generic[ResultT]):
    """Work with the engine in a thread. Started, stopped and asked by one thread; not to be started twice.

    The engine does not run in the main thread because Spark would take the main thread's SIGINT for itself.

    Args:
        work: Given the event that stops it, and where to report.

    Attributes:
        progress: How far it is, readable at any time.
    """

    def __init__(self, work: Callable[[threading.Event, Progress], ResultT]) -> None:
        self.progress = Progress()
        self._stop = threading.Event()
        self._results: list[ResultT] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(work,), name="engine", daemon=True)

    def start(self) -> None:
        """Begin."""
        limit_arenas()
        self._thread.start()

    def stop(self) -> None:
        """Ask it to apply and save what is gathered, and to end; returns at once. Safe in a signal handler."""
        self._stop.set()

    @property
    def stopping(self) -> bool:
        """Whether it was asked to end."""
        return self._stop.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait at most `seconds`; whether it has ended."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def result(self) -> ResultT:
        """How it ended; waits for the end.

        Raises:
            ReplicatorError: What ended it.
        """
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._results[0]

    def _run(self, work: Callable[[threading.Event, Progress], ResultT]) -> None:
        try:
            self._results.append(work(self._stop, self.progress))
        except BaseException as error:  # noqa: BLE001 - handed to the thread that asks for the result
            self._error = error


class Execution(InThread[RunResult]):
    """One run of a pipeline.

    Args:
        pipeline: Which.
        until_current: As of `run`.
        began: Likewise; called in the engine's thread.
        spark: Likewise.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        until_current: bool = False,
        began: Callable[[Run], None] | None = None,
        spark: SparkHandle | None = None,
    ) -> None:
        super().__init__(
            lambda stop, progress: run(
                pipeline, until_current=until_current, stop=stop, progress=progress, began=began, spark=spark
            )
        )
