"""Runs one command and keeps what is known of it: its process, its output, and at its end its exit code.

A launcher executes this file by its path, in a session of its own and with an interpreter that loads no other package:

    python -I -S keeper.py FOLDER STOP_SECONDS OUTPUT_BYTES COMMAND…

In FOLDER it writes `process.json` before it does anything else, and `exit.json` at the end, each at once and whole. Where
`process.json` is there already it ends and has done nothing, so one folder never has two commands. It holds a lock on
`process.json`, which the command inherits: while one of the two lives, the lock is held.

The first SIGTERM is passed on to the command; what lives after STOP_SECONDS is killed. When this process is killed the kernel
kills the command. Output on standard error goes to `output.log`, whose older half is `output.1.log`; `result.json` is what
the command prints on standard output.
"""

# One such process lives beside each run, so it imports little: no pathlib, no contextlib.
# ruff: noqa: PTH104, PTH108, PTH115, PTH118, PTH123, SIM105
from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

PROCESS, EXIT = "process.json", "exit.json"
OUTPUT, OLDER_OUTPUT, RESULT = "output.log", "output.1.log", "result.json"
RESULT_BYTES = 1024 * 1024
_CHUNK = 65536
_DIE_WITH_PARENT = 1
_NOT_EXECUTED = 127


def main(arguments: list[str]) -> None:
    """Run the command that the arguments name."""
    folder, stop_seconds, output_bytes, *command = arguments
    os.chdir(folder)
    os.umask(0o077)
    lock = claim(identity())
    if lock is None:
        return
    code = Kept(command, float(stop_seconds), int(output_bytes), lock).run()
    write_whole(EXIT, {"code": code, "at": time.time()})


def identity() -> dict[str, object]:
    """This process, so that another one with its number later is not taken for it."""
    with open("/proc/self/stat", "rb") as file:
        started = int(file.read().rpartition(b")")[2].split()[19])
    with open("/proc/sys/kernel/random/boot_id") as text:
        boot = text.read().strip()
    return {"pid": os.getpid(), "started": started, "boot": boot, "space": os.readlink("/proc/self/ns/pid")}


def claim(content: dict[str, object], folder: str = ".") -> int | None:
    """The open and locked `process.json` with that content; None when there was one before."""
    name = os.path.join(folder, f"{PROCESS}.{os.getpid()}")
    file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        os.write(file, json.dumps(content).encode())
        os.fsync(file)
        os.link(name, os.path.join(folder, PROCESS))
    except FileExistsError:
        os.close(file)
        return None
    finally:
        os.unlink(name)
    return file


def write_whole(name: str, content: dict[str, object]) -> None:
    """Write a file so that a reader sees all of it or none, also after the machine has failed."""
    file = os.open(f"{name}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(file, json.dumps(content).encode())
        os.fsync(file)
    finally:
        os.close(file)
    os.rename(f"{name}.new", name)
    here = os.open(".", os.O_RDONLY)
    try:
        os.fsync(here)
    finally:
        os.close(here)


class Kept:
    """The command while it runs."""

    def __init__(self, command: list[str], stop_seconds: float, output_bytes: int, lock: int) -> None:
        self._command = command
        self._stop_seconds = stop_seconds
        self._lock = lock
        self._log = Log(output_bytes)
        self._result = os.open(RESULT, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        self._result_left = RESULT_BYTES
        self._kill_at: float | None = None

    def run(self) -> int:
        """Its exit code; 128 and the signal's number when a signal has ended it."""
        woken, wake = os.pipe()
        os.set_blocking(woken, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        output, errors = os.pipe(), os.pipe()
        child = self._begin(output[1], errors[1])
        os.close(output[1])
        os.close(errors[1])
        sinks = {output[0]: self._keep_result, errors[0]: self._log.write}
        for source in sinks:
            os.set_blocking(source, False)
        ended = self._follow(child, woken, dict(sinks))
        if ended.si_code != os.CLD_EXITED:
            _kill_group(child)
        for source, sink in sinks.items():
            while _copy(source, sink):
                pass
        os.waitpid(child, 0)
        return ended.si_status if ended.si_code == os.CLD_EXITED else 128 + ended.si_status

    def _begin(self, output: int, errors: int) -> int:
        keeper, child = os.getpid(), os.fork()
        if child:
            try:
                os.setpgid(child, child)
            except OSError:
                pass  # it has done so itself, and executes the command
            return child
        try:
            os.setpgid(0, 0)
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
            import ctypes

            ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
            if os.getppid() == keeper:
                os.set_inheritable(self._lock, True)
                os.dup2(output, 1)
                os.dup2(errors, 2)
                os.execvp(self._command[0], self._command)  # noqa: S606 - no shell is the point
        except BaseException as error:  # noqa: BLE001 - the process ends either way
            os.write(2, f"{self._command[0]} cannot be executed: {error}\n".encode())
        os._exit(_NOT_EXECUTED)

    def _follow(self, child: int, woken: int, sinks: dict[int, Callable[[bytes], object]]) -> os.waitid_result:
        """Copy output and pass signals on until the command has ended; it is not waited for, so its number stays its own."""
        poll = select.poll()
        for source in (woken, *sinks):
            poll.register(source, select.POLLIN)
        while True:
            ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is not None:
                return ended
            for source, _ in poll.poll(self._milliseconds()):
                if source == woken:
                    self._pass_on(os.read(woken, _CHUNK), child)
                elif not _copy(source, sinks[source]):
                    poll.unregister(source)
            if self._kill_at is not None and time.monotonic() >= self._kill_at:
                _kill_group(child)

    def _milliseconds(self) -> int | None:
        return None if self._kill_at is None else max(50, int((self._kill_at - time.monotonic()) * 1000) + 1)

    def _pass_on(self, numbers: bytes, child: int) -> None:
        if self._kill_at is None and {signal.SIGTERM, signal.SIGINT} & set(numbers):
            self._kill_at = time.monotonic() + self._stop_seconds
            os.kill(child, signal.SIGTERM)

    def _keep_result(self, data: bytes) -> None:
        kept = data[: self._result_left]
        self._result_left -= len(kept)
        _write(self._result, kept)


class Log:
    """The output, of which the newest is kept: two files with half of the bytes each at most."""

    def __init__(self, most_bytes: int) -> None:
        self._half = max(1, most_bytes // 2)
        self._file = os.open(OUTPUT, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._size = os.fstat(self._file).st_size

    def write(self, data: bytes) -> None:
        """Keep what was printed."""
        if self._size + len(data) > self._half and self._size:
            os.rename(OUTPUT, OLDER_OUTPUT)
            os.close(self._file)
            self._file = os.open(OUTPUT, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            self._size = 0
        _write(self._file, data)
        self._size += len(data)


def _write(file: int, data: bytes) -> None:
    """Write; a full disk costs output, not the run."""
    try:
        os.write(file, data)
    except OSError:
        pass


def _copy(source: int, sink: Callable[[bytes], object]) -> bool:
    """Copy what is there; whether there may be more."""
    try:
        data = os.read(source, _CHUNK)
    except BlockingIOError:
        return False
    if data:
        sink(data)
    return bool(data)


def _kill_group(child: int) -> None:
    """Kill the command and what it has started, such as Java. It has not been waited for, so the number is still its own."""
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        pass


if __name__ == "__main__":
    main(sys.argv[1:])
