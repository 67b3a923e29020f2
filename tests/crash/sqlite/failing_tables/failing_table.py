"""The target refuses the changes of one table, and the run is killed around the moment when that table gives the log up, or its lane begins.

As a program: `failing_table.py PART POINT run pipeline.json …`, the command `replicator` with this failure, without PART of the
recovery (`none` for all of it), and with a kill at POINT once the table has given the log up, or is to have a lane (`never`: without a kill).
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from replicator_sdk import failpoint
from replicator_sdk.errors import DataError

COMMAND = (sys.executable, str(Path(__file__)))
REFUSED = "note"
BEGINNINGS = frozenset({"engine.release.before_save", "engine.long_failure.before_save"})


def main(part: str, point: str, arguments: list[str]) -> int:
    """Run the command line; the exit code."""
    from replicator_runtime.engine.apply.applier import BatchApplier
    from replicator_runtime.engine.lifecycle import long_failures, table_lifecycle
    from tests.crash import command
    from tests.crash.patch import Patch
    from tests.crash.removed_recovery import without

    true_apply, reach = BatchApplier._apply_one, failpoint.failpoint

    def refuse(applier: Any, item: Any) -> None:
        if item.changes.table.table == REFUSED:
            raise DataError("a value is too large", code="RPL-5001", table=str(item.changes.table))
        true_apply(applier, item)

    def arm_then_reach(name: str) -> None:
        if name in BEGINNINGS or not point.startswith(("engine.release.", "engine.long_failure.")):
            failpoint.arm("" if point == "never" else f"{point}=kill")
        reach(name)

    with Patch() as patch, nullcontext() if part == "none" else without(part):
        patch.setattr(BatchApplier, "_apply_one", refuse)
        patch.setattr(table_lifecycle, "failpoint", arm_then_reach)
        patch.setattr(long_failures, "failpoint", arm_then_reach)
        return command.main(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
