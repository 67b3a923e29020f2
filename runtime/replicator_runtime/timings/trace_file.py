"""Writes steps as trace events, which https://ui.perfetto.dev and chrome://tracing show as a picture.

The form is "JSON object format" of Chromium's Trace Event Format: complete events (`ph` X), times in microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from replicator_sdk.timeline import Step


def write_trace(path: Path, steps: Sequence[Step], driver: int, start: float) -> None:
    """Write all steps; a file of that name is replaced.

    Args:
        path: Where to.
        steps: The recorded ones.
        driver: The number of the process that ran the pipeline; the others are Spark's executors.
        start: When it began, in seconds since 1970: time 0 of the picture.

    Raises:
        OSError: When it cannot be written.
    """
    threads: dict[tuple[int, str], int] = {}
    events: list[dict[str, Any]] = []
    for one in steps:
        thread = threads.setdefault((one.process, one.thread), len(threads) + 1)
        event = {
            "name": one.name,
            "cat": "wait" if one.is_wait else "step",
            "ph": "X",
            "ts": round((one.began - start) * 1e6),
            "dur": round(one.seconds * 1e6),
            "pid": one.process,
            "tid": thread,
        }
        events.append(event | ({"args": {"about": one.about}} if one.about else {}))
    for process in {process for process, _ in threads}:
        name = "replicator" if process == driver else "executor"
        events.append({"name": "process_name", "ph": "M", "pid": process, "args": {"name": name}})
    for (process, name), thread in threads.items():
        events.append({"name": "thread_name", "ph": "M", "pid": process, "tid": thread, "args": {"name": name}})
    path.write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}))
