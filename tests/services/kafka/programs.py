"""Kafka's Java programs: their class path, and archives of loaded classes, with which they start in half the time."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from tests.services.artifacts import cache_folder, kafka_jars
from tests.services.processes import ServerError, tail, wait_until

BROKER, CONNECT = "kafka.Kafka", "org.apache.kafka.connect.cli.ConnectDistributed"
_FORMAT = "kafka.tools.StorageTool"
_CLUSTER = "AAAAAAAAAAAAAAAAAAAAAA"
# Small and short-lived: no thread but the program's own, and no time spent on code that is optimised when the test is over.
_SMALL = (
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Xlog:disable",
    "-Xlog:all=error:stderr",
)


def command(program: str, *arguments: str | Path, keep_classes: Path | None = None) -> list[str | Path]:
    """How a program is started, in the environment of `environment()`.

    Args:
        program: the class with the main method.
        *arguments: of the program.
        keep_classes: a file into which the program, when it ends in order, writes the classes it has loaded.
    """
    if keep_classes:
        classes = f"-XX:ArchiveClassesAtExit={keep_classes}"
    else:
        classes = f"-XX:SharedArchiveFile={archive(program)}"  # one that is missing or does not fit is not used
    return [java(), *_SMALL, classes, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", program, *arguments]


@cache
def environment() -> Mapping[str, str]:
    """The class path as a variable, which keeps the command readable; fetches the jars at the first call on a machine."""
    return {"CLASSPATH": os.pathsep.join(map(str, kafka_jars()))}


def archive(program: str) -> Path:
    """Where the classes of a program are kept; another Java or other jars have another place."""
    runs = Path(java())
    parts = f"{runs.resolve()} {runs.stat().st_mtime_ns} {environment()['CLASSPATH']}"
    return (
        cache_folder() / "kafka" / f"{program.rpartition('.')[2]}-{hashlib.sha256(parts.encode()).hexdigest()[:12]}.jsa"
    )


def start_on_free_port(
    launch: Callable[[], subprocess.Popen[bytes]],
    answers: Callable[[], bool],
    *,
    log: Path,
    seconds: float,
    busy: str,
    move: Callable[[], None] | None,
) -> subprocess.Popen[bytes]:
    """A program that answers; where another process has taken its port meanwhile, it is started again on another.

    Args:
        launch: starts it.
        answers: whether it is ready.
        log: what it says.
        seconds: how long it may take to be ready.
        busy: what it says when its port is taken.
        move: chooses other ports; None when it has to keep those it has.

    Raises:
        ServerError: it does not start.
    """
    for _ in range(5):
        process = launch()
        try:
            wait_until(answers, process=process, log=log, seconds=seconds)
        except ServerError:
            process.kill()
            process.wait(120)
            if move is None or busy not in tail(log, 100):
                raise
            move()
        else:
            return process
    raise ServerError(f"no free port in five attempts:\n{tail(log)}")


def format_storage(properties: Path, target: Path, *, node: int = 1, cluster: str = "") -> None:
    """Makes `target` the data folder of a new broker.

    It is formatted once on this machine and copied for each broker.

    Args:
        properties: the broker's.
        target: a folder that is not there yet.
        node: the broker's number.
        cluster: the id of the cluster it joins; by default it makes one of its own.

    Raises:
        ServerError: it cannot be formatted.
    """
    template = cache_folder() / "kafka" / f"data-{hashlib.sha256(environment()['CLASSPATH'].encode()).hexdigest()[:12]}"
    if not template.exists():
        template.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=template.parent, prefix=".partial-") as partial:
            other = Path(partial) / "server.properties"
            data = Path(partial) / "data"
            other.write_text(properties.read_text() + f"log.dirs={data}\n")  # the last line of a name counts
            _run(command(_FORMAT, "format", "-t", _CLUSTER, "-c", other))
            try:
                data.rename(template)
            except OSError:  # another process was first
                if not template.exists():
                    raise
    shutil.copytree(template, target)
    identity = target / "meta.properties"
    own = {"cluster.id": cluster or _new_id(), "node.id": node, "directory.id": _new_id(), "version": 1}
    identity.write_text("".join(f"{name}={value}\n" for name, value in own.items()))


def _new_id() -> str:
    """A random id in Kafka's form; one does not begin with a dash, which its tools take for an option."""
    return base64.urlsafe_b64encode(b"A" + uuid.uuid4().bytes[1:])[:22].decode()


def _run(arguments: list[str | Path]) -> None:
    done = subprocess.run(arguments, env=dict(os.environ, **environment()), capture_output=True, text=True, check=False)
    if done.returncode:
        raise ServerError(f"{arguments[-5:]} ended with {done.returncode}:\n{done.stderr}")


def java() -> str:
    """The Java program of `JAVA_HOME`, else of the path."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(str(Path(home) / "bin/java") if home else "java")
    if not found:
        raise ServerError("Kafka for the tests needs Java 17 or later: make setup")
    return found
