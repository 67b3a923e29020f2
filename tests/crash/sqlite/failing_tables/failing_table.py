"""The target refuses the changes of one table, also from its lane, and the run is killed around the moment when that table gives the log up, or its lane begins.

As a program: `failing_table.py PART POINT run pipeline.json …`, the command `replicator` with this failure, without PART of the
recovery (`none` for all of it), and with a kill at POINT once the table has given the log up, or is to have a lane (`never`: without a kill).
"""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from replicator_sdk import failpoint
from replicator_sdk.errors import DataError

COMMAND = (sys.executable, str(Path(__file__)))
REFUSED = "note"
TAKEN = "FAILING_TABLE_TAKEN"
"""The variable that says how many commits of a lane the target takes before it refuses the next one."""
BEGINNINGS = frozenset({"engine.release.before_save", "engine.long_failure.before_save", "engine.long_failure.refused"})


def main(part: str, point: str, arguments: list[str]) -> int:
    """Run the command line; the exit code."""
    from replicator_runtime.engine.apply.applier import BatchApplier
    from replicator_runtime.engine.apply.lane_drains import LaneDrain
    from replicator_runtime.engine.lifecycle import long_failures, table_lifecycle
    from tests.crash import command
    from tests.crash.patch import Patch
    from tests.crash.removed_recovery import without

    true_apply, true_step, reach = BatchApplier._apply_one, LaneDrain._apply, failpoint.failpoint
    left = int(os.environ.get(TAKEN, "0"))

    def refuse(applier: Any, item: Any) -> None:
        if item.changes.table.table == REFUSED:
            raise DataError("a value is too large", code="RPL-5001", table=str(item.changes.table))
        true_apply(applier, item)

    def refuse_later(drain: Any, consumer: Any, step: Any) -> None:
        nonlocal left
        if drain.record.table.table == REFUSED:
            left -= 1
            if left < 0:
                raise DataError("a value is too large", code="RPL-5001", table=str(drain.record.table))
        true_step(drain, consumer, step)

    def arm_then_reach(name: str) -> None:
        if name in BEGINNINGS or not point.startswith(("engine.release.", "engine.long_failure.")):
            failpoint.arm("" if point == "never" else f"{point}=kill")
        reach(name)

    with Patch() as patch, nullcontext() if part == "none" else without(part):
        patch.setattr(BatchApplier, "_apply_one", refuse)
        patch.setattr(LaneDrain, "_apply", refuse_later)
        patch.setattr(table_lifecycle, "failpoint", arm_then_reach)
        patch.setattr(long_failures, "failpoint", arm_then_reach)
        return command.main(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
