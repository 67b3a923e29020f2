"""Java virtual machines that outlive the commands which use them, so that a command does not wait for a new one.

A new virtual machine costs a replicator's command about five seconds of a core, and tests from end to end give hundreds of commands. While
they are `shared`, such a command gets a virtual machine as it would from `spark-submit`: it makes a Spark context in it and ends that
context, and the next command makes another. Whatever Delta and Hadoop keep in memory is dropped between two commands.

A command that is killed takes its virtual machine with it, as one does that has started its own. Commands with failpoints or other
variables, and those of tests that do not ask for this, start their own.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyspark
from py4j.clientserver import ClientServer, JavaParameters, PythonParameters

from replicator_runtime.observability.redaction import SECRET_VARIABLES
from tests.services.processes import LOOPBACK, ServerError, scratch_folder, tail
from tests.services.spark.session import INTERPRETER, SMALL, settings

MASTER = "local[2]"
_USES = 40
"""A virtual machine keeps what each of its clients has not let go of, so it is replaced at times."""
_IDLE, _IDLE_BETWEEN_MODULES = 2, 1
"""So many wait for the next command; each has some hundred megabytes."""
_SECONDS_TO_START = 120.0
_TWO_NUMBERS = struct.Struct(">ii")
_VARIABLES_OF_A_TEST = ("PYTEST_", SECRET_VARIABLES)


@dataclass(eq=False)
class KeptJava:
    """One virtual machine, used by one command at a time.

    Attributes:
        around: Variables and folder of the process that started it.
        process: The virtual machine; it ends when its standard input does.
        port: Where it is asked.
        secret: What it is asked with.
        ended: How the command that uses it has ended: None while it goes on. Asked where no one has given it back.
        uses: How many commands have used it.
        user: The thread that has taken it, and waits for the command.
    """

    around: tuple[Mapping[str, str], str]
    process: subprocess.Popen[bytes]
    port: int
    secret: str
    ended: Callable[[], int | None] | None = None
    uses: int = 0
    user: int = 0

    def variables(self) -> dict[str, str]:
        """What a command finds it by."""
        return {"PYSPARK_GATEWAY_PORT": str(self.port), "PYSPARK_GATEWAY_SECRET": self.secret}

    def give_back(self, status: int) -> None:
        """The command has ended with this exit code, less than 0 for a signal. May be called again."""
        with _lock:
            if self.ended is None:
                return
            self.ended = None
            self.uses += 1
            if status < 0 or self.uses >= _USES or not self._forget():
                self.kill()

    def kill(self) -> None:
        """End it at once."""
        if self in _kept:
            _kept.remove(self)
        self.process.kill()
        self.process.wait(120)
        assert self.process.stdin is not None
        self.process.stdin.close()

    def _forget(self) -> bool:
        """Drop what is in its memory of the tables and files it has seen; False when a context still works, or it does not answer."""
        with contextlib.suppress(Exception):  # whatever it is: the next command gets another one
            client = ClientServer(
                java_parameters=JavaParameters(port=self.port, auth_token=self.secret, auto_convert=True),
                python_parameters=PythonParameters(port=0, eager_load=False),
            )
            try:
                packages = client.jvm.org.apache
                if not getattr(getattr(packages.spark, "SparkContext$"), "MODULE$").getActive().isEmpty():
                    return False
                packages.spark.sql.delta.DeltaLog.clearCache()
                packages.hadoop.fs.FileSystem.closeAll()
            finally:
                client.close()
            return True
        return False


_lock = threading.RLock()
_kept: list[KeptJava] = []
_is_shared = False


@contextlib.contextmanager
def shared() -> Iterator[None]:
    """Meanwhile commands of tests get a virtual machine that others have used."""
    global _is_shared  # noqa: PLW0603
    before, _is_shared = _is_shared, True
    try:
        yield
    finally:
        _is_shared = before
        with _lock:
            _end_idle(but=_IDLE_BETWEEN_MODULES)


def is_shared() -> bool:
    """Whether commands get one now."""
    return _is_shared


def take(ended: Callable[[], int | None] | None = None) -> KeptJava:
    """One that no command uses, a new one if need be; to be given back.

    Args:
        ended: How the command has ended, if it has; may be set later.
    """
    around = _around()
    with _lock:
        _reclaim()
        for java in _kept.copy():
            if java.ended is not None:
                continue
            if java.process.poll() is not None or java.around != around:
                java.kill()
                continue
            break
        else:
            java = _start(around)
            _kept.append(java)
        java.ended, java.user = ended or _goes_on, threading.get_ident()
        return java


def _goes_on() -> None:
    """Of a command that has not begun."""


def _reclaim() -> None:
    """Take back what ended commands of this thread use, and end those that are too many."""
    for java in _kept.copy():
        mine = java.ended is not None and java.user == threading.get_ident()
        status = java.ended() if java.ended is not None and mine else None
        if status is not None:
            java.give_back(status)
    _end_idle(but=_IDLE)


def _end_idle(*, but: int) -> None:
    for java in [java for java in _kept if java.ended is None][but:]:
        java.kill()


def _around() -> tuple[Mapping[str, str], str]:
    found = {name: value for name, value in os.environ.items() if not name.startswith(_VARIABLES_OF_A_TEST)}
    return found, str(Path.cwd())


def _start(around: tuple[Mapping[str, str], str]) -> KeptJava:
    """Start a virtual machine as pyspark does."""
    folder = _folder()
    log, answer = folder / "log", Path(tempfile.mkdtemp(dir=folder)) / "port"
    conf = {**SMALL, "spark.jars": settings()["spark.jars"], "spark.master": MASTER}
    submit = Path(pyspark.__file__).parent / "bin/spark-submit"
    words = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    environment = {
        **around[0],
        **INTERPRETER,
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_LOCAL_DIRS": str(answer.parent),
        "SPARK_CONNECT_MODE": "0",
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(answer),
    }
    with log.open("ab") as output:
        process = subprocess.Popen(
            [submit, *words, "pyspark-shell"],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
    deadline = time.monotonic() + _SECONDS_TO_START
    while not answer.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise ServerError(f"no virtual machine for Spark:\n{tail(log)}")
        time.sleep(0.05)
    with answer.open("rb") as said:
        port, length = _TWO_NUMBERS.unpack(said.read(_TWO_NUMBERS.size))
        secret = said.read(length).decode()
    return KeptJava(around, process, port, secret)


def _folder() -> Path:
    global _made  # noqa: PLW0603
    if _made is None:
        _made = scratch_folder("java")
        atexit.register(_end)
    return _made


_made: Path | None = None


def _end() -> None:
    for java in _kept.copy():
        java.kill()
    if _made is not None:
        shutil.rmtree(_made, ignore_errors=True)
