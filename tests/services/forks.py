"""Python programs that start at once: forked from a process which has imported what a replicator imports.

Importing it costs more than a second of a core, and the tests start a replicator hundreds of times. What is forked is a process like
any other: it leads a group of its own, is killed as any other, takes its Java virtual machine with it, and dies with the tests.

`python -m tests.services.forks SOCKET` is the process it comes from; `fork` starts one such for each process of tests.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from tests.services.processes import ServerError, die_with_parent, scratch_folder, spawn, stop, wait_until

_IMPORTED = (
    "replicator_runtime.cli.app",
    "replicator_runtime.execution",
    "replicator_runtime.engine.worker",
    "replicator_runtime.spark.session",
    "replicator_source_sqlite.plugin",
    "replicator_source_postgres.streaming.reader",
    "replicator_source_mysql.streaming.reader",
    "replicator_source_kafka.window.reader",
    "replicator_target_delta.consumer",
    "replicator_target_bigquery.batch.consumer",
    "psycopg",
    "pymysql",
    "pyspark.sql",
    "pyspark.testing.utils",  # imported by Spark itself with the first call of Java, and pandas by it
    "tests.crash.removed_recovery",
)
# A process with threads had better not fork: numpy's and Arrow's start with their import.
_WITHOUT_THREADS = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}


class Forked:
    """A forked program; what tests use of `subprocess.Popen`.

    Attributes:
        args: The command.
        pid: Its process, which leads a group of its own.
        returncode: How it ended: the exit code, or less than 0 for a signal; None while it runs or before `poll`.
    """

    def __init__(self, args: Sequence[str], answers: socket.socket) -> None:
        self.args = list(args)
        self.returncode: int | None = None
        self._answers = answers
        self._said = answers.makefile("rb")
        self.pid = self._next()

    def _next(self) -> int:
        line = self._said.readline()
        if not line:
            raise ServerError(f"the process that {self.args!r} was forked from is gone")
        return int(line)

    def poll(self) -> int | None:
        """How it ended, None when it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end.

        Raises:
            subprocess.TimeoutExpired: When it still runs after `timeout` seconds.
        """
        if self.returncode is None:
            if not select.select([self._answers], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self.returncode = self._next()
            self._said.close()
            self._answers.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it has not ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


def fork(command: Sequence[str | Path], *, log: Path, environment: Mapping[str, str]) -> Forked:
    """Start `command` as `spawn` would; it is one of this Python's: `[sys.executable, SCRIPT or "-c", …]`."""
    interpreter, *arguments = map(str, command)
    assert interpreter == sys.executable
    log.touch()
    answers = socket.socket(socket.AF_UNIX)
    answers.connect(str(_parent()))
    request = {
        "arguments": arguments,
        "log": str(log.absolute()),
        "folder": str(Path.cwd()),
        "environment": dict(os.environ, **environment),
    }
    answers.sendall(json.dumps(request).encode() + b"\n")
    return Forked([interpreter, *arguments], answers)


@cache
def _parent() -> Path:
    """The socket of the process to fork from, which ends with this one."""
    folder = scratch_folder("forks")
    address, log = folder / "socket", folder / "log"
    process = spawn(
        [sys.executable, "-m", "tests.services.forks", address],
        log=log,
        environment=_WITHOUT_THREADS,
        folder=Path(__file__).parents[2],
    )
    atexit.register(stop, process)
    wait_until(lambda: _listens(address), process=process, log=log, seconds=120)
    return address


def _listens(address: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(address)) == 0


# ---------------------------------------------------------------- the process that is forked


@dataclass
class Parent:
    """Forks what it is asked for, and reports how it ended. A process of one thread: others would be missing in its children."""

    listener: socket.socket
    woken: socket.socket
    wake: socket.socket
    children: dict[int, socket.socket] = field(default_factory=dict)

    def serve(self) -> None:
        """Answer until killed."""
        while True:
            ready, _, _ = select.select([self.listener, self.woken], [], [])
            if self.woken in ready:
                self.woken.recv(4096)
                self._bury()
            if self.listener in ready:
                self._answer()

    def _answer(self) -> None:
        asked, _ = self.listener.accept()
        with asked.makefile("rb") as said:
            line = said.readline()
        if not line:  # a check whether this process exists
            asked.close()
            return
        pid = os.fork()
        if pid == 0:
            for end in (asked, self.listener, self.woken, self.wake, *self.children.values()):
                end.close()
            _become(json.loads(line))
        with contextlib.suppress(ProcessLookupError):  # here and there: whoever hears of it may kill the group
            os.setpgid(pid, pid)
        self.children[pid] = asked
        _say(asked, pid)

    def _bury(self) -> None:
        while self.children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            asked = self.children.pop(pid)
            _say(asked, os.waitstatus_to_exitcode(status))
            asked.close()


def _say(asked: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # who asked may be gone
        asked.sendall(b"%d\n" % number)


def _serve(address: str) -> None:
    for name in _IMPORTED:
        importlib.import_module(name)
    assert len(list(Path("/proc/self/task").iterdir())) == 1, "an import started a thread"
    gc.freeze()
    woken, wake = socket.socketpair()
    for end in (woken, wake):
        end.setblocking(False)
    signal.set_wakeup_fd(wake.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        Parent(listener, woken, wake).serve()


def _become(request: Mapping[str, Any]) -> NoReturn:
    """Be the program: its group, signals, files, environment and arguments; ends this process."""
    status = 1
    try:
        os.setpgid(0, 0)
        die_with_parent()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        output = os.open(request["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        for standard in (1, 2):
            os.dup2(output, standard)
        os.close(output)
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        sys.path[:0] = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
        _rearm()
        status = _run(request["arguments"])
    except BaseException:  # noqa: BLE001 - as the interpreter does
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _rearm() -> None:
    """What was read from the environment when it was imported."""
    from replicator_sdk import failpoint

    failpoint.arm(os.environ.get("REPLICATOR_FAILPOINTS", ""))


def _run(arguments: Sequence[str]) -> int:
    program, *rest = arguments
    try:
        if program == "-c":
            sys.argv = ["-c", *rest[1:]]
            exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
        else:
            sys.argv = [program, *rest]
            sys.path.insert(0, str(Path(program).parent))
            runpy.run_path(program, run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)  # noqa: T201 - as the interpreter does
            return 1
        return int(end.code or 0)
    finally:
        threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as the interpreter does
        atexit._run_exitfuncs()
    return 0


if __name__ == "__main__":
    _serve(sys.argv[1])
