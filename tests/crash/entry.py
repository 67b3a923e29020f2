"""The command `replicator` with a part of its recovery broken, for the tests' twins: `entry.py WHAT run pipeline.json …`.

Each breakage takes away one thing that makes a crash harmless. A test of crashes that passes with all of them in place must
fail with one of them gone, else it tests nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def forget_progress() -> None:
    """Nobody looks at how far a table says it is: what was applied before a crash is applied again."""
    from replicator_runtime.engine import attempt
    from replicator_runtime.engine.gather import TableFloor
    from replicator_sdk import Position
    from replicator_target_delta import table
    from tests.crash.cellar import Cellar

    true_floor = attempt.Attempt._batch_floor

    def floor(self: attempt.Attempt, record: Any, consumer: Any) -> Any:
        found = true_floor(self, record, consumer)
        return None if found is None else TableFloor(Position(record.snapshot.first))

    attempt.Attempt._batch_floor = floor  # type: ignore[method-assign]
    table.Attempt.stands_at = lambda self, position: False  # type: ignore[method-assign]
    Cellar.checks_progress = False


def save_early() -> None:
    """The offset is saved before the target has what comes before it: what was in the air at a crash is lost."""
    from replicator_runtime.engine.stream import Stream

    true_flush = Stream._flush

    def flush(self: Stream, *, wait: bool) -> None:
        self._run.save_offset(self._gathering.offset, self._gathering.sequence_number)
        true_flush(self, wait=wait)

    Stream._flush = flush  # type: ignore[method-assign]


BREAKAGES: dict[str, Callable[[], None]] = {"progress": forget_progress, "order": save_early}

if __name__ == "__main__":
    BREAKAGES[sys.argv.pop(1)]()
    from replicator_runtime.cli import main

    main()
