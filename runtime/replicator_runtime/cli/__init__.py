"""The command line: `replicator`, one module per command in `commands`.

Nothing here imports Arrow, Spark or a driver at import time, so that help is printed at once.
"""

from __future__ import annotations


def main() -> None:
    """The console script `replicator`; ends the process with the exit code of `docs/cli.md`."""
    from replicator_runtime.cli.app import app

    app(prog_name="replicator")
