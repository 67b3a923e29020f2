"""Measures, once a minute in a thread of its own, how fresh the tables of a run are, by the pipeline's objectives."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import structlog

from replicator_runtime.engine.run_state.unknown_errors import summary
from replicator_runtime.engine.tables.table_state import TableState
from replicator_runtime.freshness.measurement import Measurement, forget
from replicator_runtime.freshness.objective import Objectives
from replicator_sdk.errors import FencedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from replicator_runtime.engine.run_state.run import Run

log = structlog.get_logger()
_MINUTE: Final = 60.0
_END_SECONDS: Final = 30.0


@contextmanager
def measuring_freshness(run: Run) -> Iterator[None]:
    """Measure each minute within the block, and when it ends; what fails of it fails no table and no run."""
    measurement = _opened(run)
    if measurement is None:
        yield
        return
    run.freshness = measurement
    work = _Work(run, measurement)
    thread = threading.Thread(target=work.loop, name="freshness", daemon=True)
    thread.start()
    try:
        yield
    finally:
        work.stop.set()
        thread.join(_END_SECONDS)
        if not thread.is_alive():
            work.measure()


def _opened(run: Run) -> Measurement | None:
    objectives = Objectives(run.config, run.pipeline.selection)
    try:
        if objectives.is_set:
            return Measurement(objectives, run.store)
        forget(run.store)
    except FencedError:
        raise
    except Exception as failure:  # noqa: BLE001 - data goes on
        log.warning("freshness.not_measured", error=summary(failure))
    return None


class _Work:
    """Used by its own thread, and after that by another; `stop` by any.

    Args:
        run: The run.
        measurement: What measures it.
    """

    def __init__(self, run: Run, measurement: Measurement) -> None:
        self.stop = threading.Event()
        self._run = run
        self._measurement = measurement
        self._said = ""

    def loop(self) -> None:
        """Measure at the beginning of each minute until `stop` is set."""
        while not self.stop.wait(_MINUTE - time.time() % _MINUTE):
            if not self.measure():
                return

    def measure(self) -> bool:
        """Measure once; an error of the state's store is said once, and what was counted is stored later.

        Returns:
            False when a newer run took over.
        """
        view = self._run.progress.snapshot()
        lags = {t.table: (t.state is TableState.REPLICATING, t.lag_seconds) for t in view.tables}
        try:
            self._measurement.measure(time.time(), lags, is_whole=view.phase == "streaming")
            self._said = ""
        except FencedError:
            return False
        except Exception as failure:  # noqa: BLE001 - data goes on
            if self._said != (said := summary(failure)):
                self._said = said
                log.warning("freshness.not_stored", error=said)
        return True
