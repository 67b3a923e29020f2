"""The command `replicator` with a part of its recovery removed, for the tests' twins: `command.py PART run pipeline.json …`."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.crash.removed_recovery import without

COMMAND = (sys.executable, str(Path(__file__)))


def main(arguments: list[str]) -> int:
    """Run the command line; the exit code."""
    from replicator_runtime.cli.app import app

    try:
        app(arguments, prog_name="replicator")
    except SystemExit as end:
        return int(end.code or 0)
    return 0


if __name__ == "__main__":
    with without(sys.argv[1]):
        sys.exit(main(sys.argv[2:]))
