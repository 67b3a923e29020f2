"""One table is copied while another fails again and again, so that the stream rejoins beside the copy.

As a program: `copy_beside_failures.py COPIED run pipeline.json …`, the command `replicator` with these failures.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from replicator_sdk.errors import RetryableError
from replicator_sdk.failpoint import failpoint

COMMAND = (sys.executable, str(Path(__file__)))
FAILURES = 3
_SECONDS = 300.0


class Patches(Protocol):
    """What replaces an attribute, for as long as its owner says."""

    def setattr(self, owner: Any, name: str, value: Any, /) -> None:
        """Replace it."""


class CopyBesideFailures:
    """The second commit of the copy waits until the target has refused changes of every other table `FAILURES` times.

    Each time the stream reads the log again to try that table once more. No fault of a real server lasts for as long as that.

    Attributes:
        copies: How often a copy of the table was begun.
        waves: How many commits of chunks it made.
        failures: How often changes of the other table were refused.
    """

    def __init__(self, copied: str, patches: Patches) -> None:
        from replicator_runtime.engine.apply.applier import BatchApplier
        from replicator_runtime.engine.snapshot import table_copy

        self.copies = self.waves = self.failures = 0
        self._copied = copied
        self._failed = threading.Event()
        patches.setattr(table_copy, "failpoint", self._pass)
        patches.setattr(BatchApplier, "_apply_one", self._refusing(BatchApplier._apply_one))

    def _pass(self, name: str) -> None:
        self.copies += name == "engine.snapshot.planned"
        if name == "engine.snapshot.chunks_loaded":
            self.waves += 1
            if self.waves == 2:
                assert self._failed.wait(_SECONDS), "the stream waits for the copy"
        failpoint(name)

    def _refusing(self, true_apply: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
        def apply(applier: Any, item: Any) -> None:
            table = item.changes.table
            if table.table != self._copied and not self._failed.is_set():
                self.failures += 1
                if self.failures == FAILURES:
                    self._failed.set()
                raise RetryableError("the table is locked", code="RPL-4001", table=str(table))
            true_apply(applier, item)

        return apply


def main(arguments: list[str]) -> int:
    """Run the command line; the exit code."""
    from tests.crash import command
    from tests.crash.patch import Patch

    with Patch() as patch:
        made = CopyBesideFailures(arguments[0], patch)
        status = command.main(arguments[1:])
        sys.stderr.write(f"{made.failures} failures, {made.copies} copies, {made.waves} waves\n")
        return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
