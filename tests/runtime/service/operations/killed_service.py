"""Services that are killed at named points: `python` this file with a folder for each. One import serves all of them."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from pathlib import Path

from replicator_sdk import failpoint
from tests.runtime.service.operations.ran import PIPELINE, with_pipeline

_SECONDS = 60


def main(folder: Path) -> None:
    """For each point of `plan.json`: a service in a process of its own, which is asked for something and killed there."""
    plan = json.loads((folder / "plan.json").read_text("utf-8"))
    killed = {}
    for point, (path, body) in plan["points"].items():
        process = os.fork()
        if process == 0:
            _serve(folder / point, plan["config"], plan["state"], point, path, body)
            os._exit(1)
        killed[point] = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    (folder / "killed.json").write_text(json.dumps(killed), "utf-8")


def _serve(folder: Path, config: dict[str, object], state: str, point: str, path: str, body: object) -> None:
    """Ask for something, and wait to be killed."""
    shutil.copytree(state, folder / "state")
    failpoint.arm(f"{point}=kill")
    with with_pipeline(folder, config) as service:
        service.client.post(f"{PIPELINE}/{path}", json=body)
        threading.Event().wait(_SECONDS)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
