"""Starting servers as child processes that never outlive the test run."""

from __future__ import annotations

import atexit
import ctypes
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

LOOPBACK = "127.0.0.1"
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


class ServerError(RuntimeError):
    """A server did not start or stop; the message ends with the last lines of its log."""


@dataclass(frozen=True, slots=True)
class Account:
    """The operating system account a server runs as."""

    user: int
    group: int
    name: str


def unprivileged_account() -> Account | None:
    """An account for servers that refuse to run as root; None when this process is not root and needs no other.

    `postgres` is taken where a package made it, else `nobody`: the server needs an account that is not root, and nothing more.
    """
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid, name)
    raise ServerError("running as root, and neither an account 'postgres' nor 'nobody' exists for the test servers")


def scratch_folder(kind: str) -> Path:
    """A new temporary folder that every account may enter; it goes when this process ends.

    A process that is killed leaves its folders, so each call first deletes what dead processes left.
    """
    for left in Path(tempfile.gettempdir()).glob("replicator-test-*"):
        owner = left.name.split("-")[2]
        if owner.isdigit() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"replicator-test-{os.getpid()}-{kind}-"))
    folder.chmod(0o755)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def free_port() -> int:
    """A loopback port that was free a moment ago; whoever binds it must be ready to try another."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def die_with_parent(death_signal: signal.Signals = signal.SIGKILL) -> None:
    """Have the system send this process the signal when the one that started it dies."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, int(death_signal))


def spawn(
    command: Sequence[str | Path],
    *,
    log: Path,
    account: Account | None = None,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    death_signal: signal.Signals = signal.SIGKILL,
) -> subprocess.Popen[bytes]:
    """Starts a server whose output goes to `log` and which gets `death_signal` when the test process dies, however it dies.

    The caller owns the process and stops it.
    """
    with log.open("ab") as output:
        return subprocess.Popen(
            [*dying_with_parent(death_signal, account), *(str(part) for part in command)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=dict(os.environ, **(environment or {})),
            start_new_session=True,  # Ctrl-C in the terminal stops the tests, which then stop the server in order
        )


def dying_with_parent(death_signal: signal.Signals = signal.SIGKILL, account: Account | None = None) -> list[str]:
    """The words before a command that have it run as `account`, and get the signal when the process that started it dies.

    A program and not `preexec_fn`, `user` and `group` of `subprocess`: with those the interpreter forks, and gRPC's threads,
    which the tests of BigQuery start, sometimes abort the child before it becomes the server.
    """
    words = ["setpriv", "--pdeathsig", death_signal.name]
    if account is not None:
        words += ["--reuid", str(account.user), "--regid", str(account.group), "--clear-groups"]
    return [*words, "--"]


def wait_until(ready: Callable[[], bool], *, process: subprocess.Popen[bytes], log: Path, seconds: float) -> None:
    """Waits until `ready()` is true.

    Raises:
        ServerError: the process ended, or `seconds` went by; with the tail of the log.
    """
    deadline = time.monotonic() + seconds
    while not ready():
        if process.poll() is not None:
            raise ServerError(f"{process.args!r} ended with {process.returncode}:\n{tail(log)}")
        if time.monotonic() > deadline:
            raise ServerError(f"{process.args!r} is not ready after {seconds} s:\n{tail(log)}")
        time.sleep(0.05)


def accepts_connections(port: int) -> bool:
    """Whether a process listens on the loopback port."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((LOOPBACK, port)) == 0


def tail(log: Path, lines: int = 30) -> str:
    """The last lines of a log file; empty when there is none."""
    if not log.exists():
        return ""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def stop(process: subprocess.Popen[bytes], how: signal.Signals = signal.SIGTERM, seconds: float = 30) -> None:
    """Sends the signal and waits for the end; kills what has not ended in time. A process that is gone is left alone."""
    if process.poll() is not None:
        return
    process.send_signal(how)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(120)
