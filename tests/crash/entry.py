"""The command `replicator` with a part of its recovery broken, for the tests' twins: `entry.py WHAT run pipeline.json …`.

`entry.py each WHAT=FOLDER …` runs the pipelines in several folders until they are current, one after the other and each
with another part broken, in one process and one Java virtual machine; what each says is in its folder's `twin.log`.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

from tests.crash.breakages import Patch, altered


def main(arguments: list[str]) -> int:
    """Run the command line; the exit code."""
    from replicator_runtime.cli.app import app

    try:
        app(arguments, prog_name="replicator")
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def each(pairs: list[str]) -> None:
    """Run every folder's pipeline in one Spark session."""
    from replicator_runtime.spark import session as spark_session

    with Patch() as patch:
        patch.setattr(spark_session, "stop_session", lambda session: None)
        for pair in pairs:
            what, _, folder = pair.partition("=")
            with (Path(folder) / "twin.log").open("w") as said, contextlib.redirect_stdout(said), altered(what):
                status = main(["run", str(Path(folder) / "pipeline.json"), "--json", "--until-current"])
            (Path(folder) / "twin.status").write_text(str(status))


if __name__ == "__main__":
    if sys.argv[1] == "each":
        each(sys.argv[2:])
    else:
        with altered(sys.argv[1]):
            sys.exit(main(sys.argv[2:]))
