"""An engine run in a thread of its own, so that the main thread stays free for signals and progress."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from replicator_runtime.allocator import limit_arenas
from replicator_runtime.engine.run_state.progress import Progress
from replicator_runtime.engine.worker import RunResult, run

if TYPE_CHECKING:
    from replicator_runtime.config import Pipeline


class Execution:
    """One run of a pipeline. Started, stopped and asked by one thread; not to be started twice.

    The engine does not run in the main thread because Spark would take the main thread's SIGINT for itself.

    Attributes:
        progress: How far it is, readable at any time.
    """

    def __init__(self, pipeline: Pipeline, *, until_current: bool = False) -> None:
        self.progress = Progress()
        self._stop = threading.Event()
        self._result: RunResult | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(pipeline, until_current), name="engine", daemon=True)

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

    def result(self) -> RunResult:
        """How it ended; waits for the end.

        Raises:
            ReplicatorError: What ended it.
        """
        self._thread.join()
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    def _run(self, pipeline: Pipeline, until_current: bool) -> None:
        try:
            self._result = run(pipeline, until_current=until_current, stop=self._stop, progress=self.progress)
        except BaseException as error:  # noqa: BLE001 - handed to the thread that asks for the result
            self._error = error
