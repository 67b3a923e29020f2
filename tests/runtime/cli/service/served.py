"""`replicator serve` in a process of its own, on a free port of the loopback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

COMMAND = (sys.executable, "-c", "from replicator_runtime.cli import main; main()")
SECONDS = 60.0


@dataclass
class Served:
    """A service.

    Attributes:
        process: Its process.
        url: Its address.
        store: The URL of its database.
        messages: The file with what it says.
    """

    process: subprocess.Popen[str]
    url: str
    store: str
    messages: Path

    def end(self, number: int) -> int:
        """Send a signal, and wait for the exit code."""
        self.process.send_signal(number)
        return self.process.wait(SECONDS)


@contextmanager
def served(folder: Path, *options: str) -> Iterator[Served]:
    """Starts one that keeps everything in `folder`, waits until it answers, and kills it at the end."""
    store, messages = f"sqlite:///{folder / 'service.db'}", folder / "messages"
    words = ["serve", "--port", "0", "--store", store, "--base-path", str(folder / "state"), *options]
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "home")}
    with messages.open("w") as errors:
        process = subprocess.Popen(
            [*COMMAND, *words], stdout=subprocess.PIPE, stderr=errors, text=True, env=environment, cwd=folder
        )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert "://127.0.0.1:" in url, messages.read_text()
        yield Served(process, url, store, messages)
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
