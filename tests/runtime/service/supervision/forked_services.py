"""A process that forks services which only supervise: one for each line of JSON on standard input; it prints their numbers."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from replicator_runtime.service.store.database import Database
from replicator_sdk import failpoint
from tests.runtime.service.supervision.supervised import settings_in, supervisor_of


def main() -> None:
    """Fork a service for each line."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        order = json.loads(line)
        if child := os.fork():
            sys.stdout.write(f"{child}\n")
            sys.stdout.flush()
            continue
        os.dup2(2, 1)  # what it logs is no answer
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        failpoint.arm(order["failpoints"])
        settings = settings_in(Path(order["folder"]), stop_seconds=order["stop"])
        supervisor = supervisor_of(settings, Database(settings.store))
        supervisor.start()
        while True:
            signal.pause()


if __name__ == "__main__":
    main()
