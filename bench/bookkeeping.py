"""The command `replicator`, which says at its end how long it kept its own records: `python -m bench.bookkeeping run …`.

The seconds are those inside the calls that read or write the state, summed over all threads; waiting for one another counts.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

_LINE = "bookkeeping seconds:"


def seconds_in(log: str) -> float:
    """What the command said in its log."""
    return float(log.rsplit(_LINE, 1)[1].split(maxsplit=1)[0])


class _Clock:
    """Adds up the time inside functions; a call inside another one of the same thread counts once."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._lock = threading.Lock()
        self._inside = threading.local()

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, timed."""

        def call(*arguments: Any, **settings: Any) -> Any:
            if getattr(self._inside, "value", False):
                return function(*arguments, **settings)
            self._inside.value, began = True, time.perf_counter()
            try:
                return function(*arguments, **settings)
            finally:
                self._inside.value = False
                with self._lock:
                    self.seconds += time.perf_counter() - began

        return call


def main() -> None:
    """Run the command line with the clock."""
    from replicator_runtime.cli import main as replicator
    from replicator_runtime.engine.run_state.run import Run
    from replicator_runtime.engine.run_state.status import StatusWriter
    from replicator_runtime.engine.tables.last_positions import LastPositions
    from replicator_runtime.engine.tables.table_store import TableStore

    clock = _Clock()
    places: tuple[tuple[type, str], ...] = (
        (TableStore, "save"), (TableStore, "load"), (Run, "save_offset"), (LastPositions, "save"), (StatusWriter, "_write"),
    )  # fmt: skip
    for owner, name in places:
        setattr(owner, name, clock.timed(getattr(owner, name)))
    try:
        replicator()
    finally:
        sys.stderr.write(f"\n{_LINE} {clock.seconds:.3f}\n")


if __name__ == "__main__":
    main()
