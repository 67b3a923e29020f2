"""A process that runs pipelines one after the other and keeps Spark meanwhile.

Its arguments are two files. From the second, a pipe, it reads one JSON object a line: the pipeline file, whether to run until
current, after how many seconds to stop otherwise, the failpoints to arm, and the part of the recovery to run without (one of
`tests.crash.removed_recovery`), if any. To the first it writes one JSON object when a run begins to copy or stream, and one when
it ends. Where the object is empty it ends Spark and itself.
"""

from __future__ import annotations

import contextlib
import json
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from replicator_runtime.config import load_pipeline
from replicator_runtime.execution import Execution
from replicator_runtime.observability.logs import configure_logging
from replicator_runtime.spark import session as spark_session
from replicator_sdk import failpoint
from replicator_sdk.errors import ReplicatorError
from tests.crash.removed_recovery import without


def main() -> None:
    """Run until killed, or asked for nothing."""
    stop, sessions = spark_session.stop_session, list[Any]()

    def keep(session: Any) -> None:
        sessions.append(session)

    spark_session.stop_session = keep
    configure_logging("info", "console")
    answers = Path(sys.argv[1])

    def say(answer: dict[str, Any]) -> None:
        with answers.open("a") as file:
            file.write(json.dumps(answer) + "\n")

    with Path(sys.argv[2]).open() as wishes:
        for line in wishes:
            wanted = json.loads(line)
            if not wanted:
                break
            with without(wanted["without"]) if wanted["without"] else contextlib.nullcontext():
                say(run(wanted, say))
    for session in sessions[-1:]:
        stop(session)


def run(wanted: dict[str, Any], say: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Run one pipeline; what became of it. Says when it begins to work."""
    execution = Execution(load_pipeline(Path(wanted["pipeline"])), until_current=wanted["until_current"])
    failpoint.arm(wanted["failpoints"])
    execution.start()
    ends = math.inf
    while not execution.wait(0.02):
        if ends == math.inf and execution.progress.phase not in {"starting", "retrying"}:
            say({"phase": execution.progress.phase})
            ends = time.monotonic() + wanted["seconds"]
        if not wanted["until_current"] and time.monotonic() > ends:
            execution.stop()
    try:
        result = execution.result()
    except ReplicatorError as error:
        return {"error": str(error), "code": error.code}
    finally:
        failpoint.arm("")
    return {"reached": result.reached_goal, "offset": result.offset}
