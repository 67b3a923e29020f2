"""One process that runs a command: its environment, its output within a bound, its end with all that it has started."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from replicator_runtime import FOR_SERVICE
from replicator_runtime.files_of_service import SERVICE_FILES, service_files
from replicator_runtime.secrets_of_service import ServiceRules
from replicator_runtime.service.access.reach import own_files
from replicator_sdk.outgoing.networks import NETWORKS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from replicator_runtime.service.settings import ServiceSettings

MOST_PRINTED = 64 * 1024 * 1024
"""Bytes; an assessment of 10,000 tables prints about half of it."""
_PART = 65_536
_LOOK_SECONDS = 0.1
_OF_THE_SERVICE = frozenset({"REPLICATOR_SERVER", "REPLICATOR_TOKEN"})
"""A command with these would ask a service, this one perhaps."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended.

    Attributes:
        exit_code: Negative when a signal ended it.
        printed: On standard output, up to `MOST_PRINTED` bytes.
    """

    exit_code: int
    printed: bytes


class CommandProcess:
    """A process in a group of its own. `wait` is called by one thread; `kill` by any.

    Args:
        line: Program and arguments; no shell reads them.
        settings: The service's.
        namespace: For whose pipelines; empty for none.
    """

    def __init__(self, line: Sequence[str], settings: ServiceSettings, namespace: str) -> None:
        self._lock = threading.Lock()
        self._is_over = False
        self._process = start_process(line, settings, namespace)

    @property
    def process_id(self) -> int:
        """Of the process and of its group."""
        return self._process.pid

    def wait(self, timeout: float) -> Ended | None:
        """How it ended; None when it has not within `timeout` seconds. What it leaves running ends with it."""
        until = time.monotonic() + timeout
        assert self._process.stdout is not None
        printed = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while len(printed) <= MOST_PRINTED and time.monotonic() < until:
                # A process that it left running may keep the pipe open: its own end counts, too.
                ended = self._process.poll() is not None
                if not selector.select(0 if ended else _LOOK_SECONDS):
                    if ended:
                        break
                    continue
                part = os.read(self._process.stdout.fileno(), _PART)
                if not part:
                    break
                printed += part
        return self._ended(until, bytes(printed))

    def _ended(self, until: float, printed: bytes) -> Ended | None:
        if len(printed) > MOST_PRINTED:
            self.kill()
            return Ended(-signal.SIGKILL, b"")
        try:
            exit_code = self._process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.kill()
            return None
        self.kill()
        return Ended(exit_code, printed)

    def interrupt(self) -> None:
        """Ask it to end in order (SIGTERM); nothing happens when it has ended."""
        with self._lock:
            if self._process.poll() is None:
                self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it and every process of its group at once; may be called twice, by any thread."""
        with self._lock:
            if self._is_over:
                return
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._is_over = True  # from now on the number may be another process's

    def close(self) -> None:
        """End it, and release its pipe; by the thread that waited."""
        self.kill()
        if self._process.stdout is not None:
            self._process.stdout.close()


def start_process(
    line: Sequence[str],
    settings: ServiceSettings,
    namespace: str,
    stdout: int = subprocess.PIPE,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a process in a group of its own: in the service's folder, with `child_environment`, without input and error output.

    Args:
        line: Program and arguments; no shell reads them.
        settings: The service's.
        namespace: For whose pipelines; empty for none.
        stdout: A descriptor for its output, or a pipe.
        pass_fds: Descriptors that it gets.
    """
    return subprocess.Popen(
        line,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        cwd=settings.work_folder,
        env=child_environment(settings, os.environ, namespace),
        pass_fds=pass_fds,
        start_new_session=True,
    )


def child_environment(settings: ServiceSettings, environment: Mapping[str, str], namespace: str) -> dict[str, str]:
    """The environment of a process that the service starts: the service's own, without what gives access to the service.

    Macros of pipelines (`${secure(…)}`, `${env(…)}`) are resolved from it. An envelope has what the command would print, too.

    Args:
        settings: The service's.
        environment: The service's own.
        namespace: For whose pipelines; empty for none.
    """
    password = urlsplit(settings.store).password
    passwords = (
        set() if password is None else {password, unquote(password)}
    )  # whole values: `postgres` is in many a PATH
    kept = {
        name: value
        for name, value in environment.items()
        if name not in _OF_THE_SERVICE and value not in passwords and settings.store not in value
    }
    allowed = None if settings.local_paths is None else [path.resolve() for path in settings.local_paths]
    files = service_files(own_files(settings), allowed)
    kept |= ServiceRules(namespace, settings.shared_secrets).environment()
    kept |= {SERVICE_FILES: files, NETWORKS: settings.networks.text()}
    return kept | {FOR_SERVICE: "1", "NO_COLOR": "1", "PYTHONUTF8": "1", "PYTHONSAFEPATH": "1"}
