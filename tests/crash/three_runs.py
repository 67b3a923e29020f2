"""Three runs after a kill, with changes of rows and structure between them; after each, source and target are compared.

The first run recovers. The next two show what the recovery left wrong: a schema that was not kept, or an offset that the
log has passed, does harm only when something changes again.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

RUNS = 3
_AT_ONCE = 3
"""A run into a target without Spark waits more than it computes."""


class Source(Protocol):
    """What changes between the runs, by a client that shares no code with the replicator."""

    def change_rows(self) -> None:
        """Insert, update and delete rows of every table."""

    def change_structure(self) -> None:
        """Add a column, rename one, or truncate a table: another of these at every call."""


class Copy(Protocol):
    """A replicator that was killed, and a reader of its target that shares no code with it."""

    def run_until_current(self) -> object:
        """Run until the target has all changes; raises AssertionError when that fails."""

    def differences(self) -> object:
        """What differs between source and target; empty when they are equal."""


@dataclass(frozen=True)
class ThreeRuns:
    """What follows a kill.

    Args:
        source: Its client.
        copies: What one kill or several kills left, each in folders of its own; they run at the same time.
    """

    source: Source
    copies: Sequence[Copy]

    def check(self) -> None:
        """Make the three runs.

        Raises:
            AssertionError: When a run fails, or source and target differ after it; with the number of the run.
        """
        for run in range(1, RUNS + 1):
            if run > 1:
                self._change()
            self._run()
            for number, copy in enumerate(self.copies, 1):
                assert not (found := copy.differences()), f"run {run} after kill {number}: {found}"

    def _run(self) -> None:
        """Run all copies; a single one in this thread, since a process dies with the thread that has started it."""
        if len(self.copies) == 1:
            self.copies[0].run_until_current()
            return
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(lambda copy: copy.run_until_current(), self.copies))

    def _change(self) -> None:
        """Rows of the old structure, the structure, rows of the new one."""
        self.source.change_rows()
        self.source.change_structure()
        self.source.change_rows()
