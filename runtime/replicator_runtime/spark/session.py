"""The run's Spark session: found or started with what the pipeline and its plugins ask for.

Executors import the plugins by name. With a local master they are the same interpreter; on a cluster every node needs
the same Python environment under the same path (or `PYSPARK_PYTHON`), or the modules are sent with `py_files`.
Under `spark-submit` the virtual machine exists already: its jars and master are the ones given there (`--packages`).
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from replicator_runtime.observability.redaction import SECRET_VARIABLES, contains_secret, redact_error
from replicator_runtime.spark.class_archive import archive_options
from replicator_runtime.spark.console import log_options
from replicator_runtime.spark.group_signals import is_submitted, start_gateway
from replicator_runtime.spark.jars import cache_folder, keep_jars, local_jars, require_room_for
from replicator_runtime.spark.java import require_java
from replicator_runtime.spark.pools import pool_settings
from replicator_runtime.spark.scratch_folders import Scratch
from replicator_sdk.errors import NeedsUserError, RetryableError
from replicator_sdk.timeline import step

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOCAL = re.compile(r"local(?:\[(?P<cores>\*|\d+)(?:,\s*\d+)?\])?")
_LOOPBACK = "127.0.0.1"
_FEW_CORES = frozenset({"local", "local[1]", "local[2]"})
"""Masters without a core to spare for a collector that works beside: Java chooses one wherever it sees two cores."""
_WRITES_AT_END = re.compile(r"AtExit|FlightRecord|-agent|-javaagent")
_LISTENING = ("spark.extraListeners", "spark.sql.queryExecutionListeners", "spark.plugins", "spark.metrics.conf")
_lock = threading.Lock()
_started: weakref.WeakSet[SparkSession] = weakref.WeakSet()  # the sessions that are ours
_children_before: frozenset[int] | None = None  # the processes that are not the virtual machine which is being started
_scratch: list[Scratch] = []  # of the virtual machine that is ours


def build_session(
    name: str,
    *,
    master: str = "local[*]",
    conf: Mapping[str, str] | None = None,
    packages: Sequence[str] = (),
    cores: int | None = None,
    memory_mb: int | None = None,
    py_files: Sequence[str] = (),
) -> SparkSession:
    """Start a Spark session, or take the one that exists in this process when it fits.

    Slow the first time (seconds: a Java virtual machine starts). Safe from any thread. The caller owns the session and
    ends it with `stop_session`.

    Args:
        name: Shown as the application's name.
        master: Spark's master URL. Ignored under `spark-submit`, whose own counts.
        conf: Settings; they win over every default here. Never secrets.
        packages: Maven coordinates; taken from the local cache when all are there, else resolved by Spark.
        cores: Cores of a `local[*]` master; all that this process may use when left out.
        memory_mb: Heap of the driver; a quarter of the machine between 1 and 4 GiB when left out and local.
        py_files: Python files or zips for the executors of a cluster without our environment.

    Raises:
        NeedsUserError: RPL-7201 without Java, RPL-7202 without pyspark, RPL-7203 when a setting holds a secret, RPL-7206
            when a session exists that lacks a setting which cannot be changed any more, RPL-7215 when this account may not use
            the cache of jars.
        RetryableError: RPL-7204 when Spark does not start (cluster away, packages not to be had).
    """
    settings = session_settings(
        master=master, conf=conf, packages=packages, cores=cores, memory_mb=memory_mb, py_files=py_files
    )
    with step("spark.import"):
        session_type = _import_pyspark()
    with _lock:
        if _exists():
            return _fitting(session_type.builder.getOrCreate(), settings)
        _set_interpreter(master, settings)
        session = _start(session_type, name, settings)
        keep_jars(packages, settings)
        return session


def stop_session(session: SparkSession) -> None:
    """End a session that `build_session` started, and, unless `spark-submit` owns it, the Java virtual machine.

    With the virtual machine gone its memory is free, and the next session of this process can have other jars. May be
    called twice; a session that existed before is left alone.
    """
    with _lock:
        if session not in _started:
            return
        _started.discard(session)
        may_kill = _own_java() is not None and _java_lives() and _needs_no_goodbye(session)
        if _java_lives() and not may_kill:
            with contextlib.suppress(Exception):  # it may die meanwhile; what counts is that it is gone afterwards
                session.stop()
        _forget_context()
        _end_java(at_once=may_kill)


def end_starting_java() -> None:
    """Kill the Java virtual machine that another thread of this process is starting, so that `build_session` fails there at once.

    Does nothing while none is started; safe from any thread.
    """
    others = _children_before
    if others is None:
        return
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process().children():
            if child.pid not in others:
                child.kill()


def is_dead(session: SparkSession) -> bool:
    """Whether the session's Java virtual machine has ended or its context was stopped. Asks only, in milliseconds."""
    if not _java_lives():
        return True
    try:
        return bool(session.sparkContext._jsc.sc().isStopped())  # noqa: SLF001
    except Exception:  # noqa: BLE001 - whatever it is: it does not answer
        return True


def session_settings(
    *,
    master: str = "local[*]",
    conf: Mapping[str, str] | None = None,
    packages: Sequence[str] = (),
    cores: int | None = None,
    memory_mb: int | None = None,
    py_files: Sequence[str] = (),
) -> dict[str, str]:
    """The Spark settings `build_session` starts with, without starting anything.

    Raises:
        NeedsUserError: RPL-7203 when a setting holds a registered secret, RPL-7215 when this account may not use the cache of jars.
        ConfigError: RPL-7205 when a package is no Maven coordinate.
    """
    own = dict(conf or {})
    wanted = [*packages, *_listed(own.pop("spark.jars.packages", ""))]
    settings = {"spark.sql.session.timeZone": "UTC", "spark.log.level": "WARN", **pool_settings()}
    local = _LOCAL.fullmatch(master)
    if local:
        settings |= _local_defaults(_cores(local["cores"], cores))
        master = f"local[{_cores(local['cores'], cores)}]" if local["cores"] in {"*", None} else master
    if memory_mb or local:
        settings["spark.driver.memory"] = f"{memory_mb or _heap_mb()}m"
    settings |= own
    if not is_submitted():
        settings["spark.master"] = master
        settings |= _package_settings(list(dict.fromkeys(wanted)), own)
    if py_files:
        settings["spark.submit.pyFiles"] = ",".join([*_listed(own.get("spark.submit.pyFiles", "")), *py_files])
    _refuse_secrets(settings)
    return settings


def _local_defaults(cores: int) -> dict[str, str]:
    """Sizes for one machine: Spark's own defaults are for a cluster and cost seconds per statement here."""
    return {
        "spark.driver.host": _LOOPBACK,  # no other machine may reach the driver's ports
        "spark.driver.bindAddress": _LOOPBACK,
        "spark.authenticate": "true",  # nor may another user of this machine; Spark makes the secret
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.default.parallelism": str(cores),
        "spark.sql.shuffle.partitions": str(cores),
        # Spark creates this folder, by default in the working directory; the replicator stores nothing in it.
        "spark.sql.warehouse.dir": str(cache_folder() / "warehouse"),
    }


def _package_settings(packages: list[str], own: Mapping[str, str]) -> dict[str, str]:
    if not packages:
        return {}
    jars = local_jars(packages)
    if jars is None:
        # Java takes the home folder from the user database, where a service's user may have none.
        ivy = own.get("spark.jars.ivy", str(cache_folder() / "ivy"))
        require_room_for(Path(ivy))
        return {"spark.jars.packages": ",".join(packages), "spark.jars.ivy": ivy}
    return {"spark.jars": ",".join([*_listed(own.get("spark.jars", "")), *map(str, jars)])}


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _cores(written: str | None, wished: int | None) -> int:
    """Cores of a local master: a number in the URL wins, then the wish, then what this process may use."""
    if written not in {"*", None}:
        return int(str(written))
    if wished:
        return wished
    return (
        len(psutil.Process().cpu_affinity() or [0]) if hasattr(psutil.Process, "cpu_affinity") else os.cpu_count() or 1
    )


def _heap_mb() -> int:
    quarter = int(psutil.virtual_memory().total) // 4 // 2**20
    return max(1024, min(4096, quarter))


def _refuse_secrets(settings: Mapping[str, str]) -> None:
    for key, value in settings.items():
        if contains_secret(value) or contains_secret(key):
            raise NeedsUserError(
                f"the Spark setting {key} holds a secret; Spark shows its settings on its pages and in its logs",
                code="RPL-7203",
                hint="give Spark its credentials by a Hadoop credential provider, by environment variables or by the "
                "machine's role instead",
            )


def _import_pyspark() -> type[SparkSession]:
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        hint = "pip install 'replicator[spark]', or run under the cluster's spark-submit"
        raise NeedsUserError("pyspark is not installed", code="RPL-7202", hint=hint) from error
    return SparkSession


def _set_interpreter(master: str, settings: Mapping[str, str]) -> None:
    # Executors take their interpreter from this variable only; the setting is for spark-submit.
    if chosen := settings.get("spark.pyspark.python"):
        os.environ["PYSPARK_PYTHON"] = chosen
    elif _LOCAL.fullmatch(master):
        os.environ["PYSPARK_PYTHON"] = sys.executable
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def _start(session_type: type[SparkSession], name: str, settings: dict[str, str]) -> SparkSession:
    builder, settings = session_type.builder.appName(name), settings | _own_options(settings)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        with _launched_with(settings), _may_be_ended():
            with step("spark.java"):
                start_gateway(settings)
            with step("spark.context"):
                session = builder.getOrCreate()
    except Exception as error:
        _forget_context()
        _end_java()
        reason = redact_error(error).strip().partition("\n")[0]
        raise RetryableError(
            f"Spark did not start: {reason}",
            code="RPL-7204",
            hint=f"read Spark's own lines above; is the master reachable?{_about_packages(settings)}",
        ) from error
    _started.add(session)
    return session


@contextlib.contextmanager
def _may_be_ended() -> Iterator[None]:
    """While it is entered, what this process starts can be killed by `end_starting_java`."""
    global _children_before  # noqa: PLW0603 - as `_started`, of the process
    _children_before = frozenset(child.pid for child in psutil.Process().children())
    try:
        yield
    finally:
        _children_before = None


def _about_packages(settings: Mapping[str, str]) -> str:
    packages = settings.get("spark.jars.packages")
    if not packages:
        return ""
    return f" Without the internet, put the jars of {packages} into {cache_folder() / 'jars'} (docs/operating.md)"


def _own_options(settings: Mapping[str, str]) -> dict[str, str]:
    """Have the virtual machine that is started now write its temporary files where they are deleted with it, and log what matters."""
    if is_submitted():
        return {}
    java = require_java()
    bases = os.environ.get("SPARK_LOCAL_DIRS") or settings.get("spark.local.dir", "")
    scratch = Scratch(tuple(_listed(bases)))
    _scratch.append(scratch)
    options = archive_options(java, log_options(settings.get("spark.driver.extraJavaOptions", "")))
    if settings.get("spark.master", "") in _FEW_CORES and not re.search(r"-XX:\+Use\w+GC", options):
        options = f"{options} -XX:+UseSerialGC".strip()
    if "-Djava.io.tmpdir" not in options:
        options = f'{options} -Djava.io.tmpdir="{scratch.paths[0]}"'.strip()
    return {"spark.driver.extraJavaOptions": options}


@contextlib.contextmanager
def _launched_with(settings: Mapping[str, str]) -> Iterator[None]:
    """Environment variables of Spark's launcher, while it runs: the virtual machine, and Python on its executors, get no secrets."""
    wanted: dict[str, str] = {}
    if settings.get("spark.master", "").startswith("local") and "SPARK_LOCAL_IP" not in os.environ:
        wanted["SPARK_LOCAL_IP"] = _LOOPBACK  # else it resolves the host's own name, and warns
    if _scratch:
        # Not `spark.local.dir`, which executors of a cluster would take as well.
        wanted["SPARK_LOCAL_DIRS"] = ",".join(_scratch[-1].paths)
    secrets = [name for name in os.environ if name.startswith(SECRET_VARIABLES)]
    before = {name: os.environ.get(name) for name in (*wanted, *secrets)}
    for name in secrets:
        del os.environ[name]
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _exists() -> bool:
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None  # noqa: SLF001  # the public question knows one thread only


def _fitting(session: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """The existing session with our settings, when it has those that are read only at its start."""
    for key in ("spark.sql.extensions", "spark.sql.catalog.spark_catalog"):
        missing = set(_listed(settings.get(key, ""))) - set(_listed(session.conf.get(key, "") or ""))
        if missing:
            raise NeedsUserError(
                f"a Spark session exists in this process without {key}={','.join(sorted(missing))}",
                code="RPL-7206",
                hint="start it with that setting (spark-submit --conf), or let the replicator start its own",
            )
    for key, value in settings.items():
        if session.conf.isModifiable(key):
            session.conf.set(key, value)
    return session


def _java_lives() -> bool:
    """Whether the virtual machine runs; taken for granted where this process has not started it."""
    process = _own_java()
    return process is None or process.poll() is None


def _own_java() -> subprocess.Popen[bytes] | None:
    """The process of the virtual machine, where this process has started it; None under `spark-submit`, whose context is to be ended."""
    from pyspark import SparkContext

    process: subprocess.Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001
    return process


def _forget_context() -> None:
    """Forget what pyspark keeps of a context and its session; it keeps both when their end fails, and the next start asserts."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession
    from pyspark.sql.context import SQLContext

    context: Any = SparkContext._active_spark_context  # noqa: SLF001
    if context is not None:
        server = getattr(context, "_accumulatorServer", None)
        if server is not None:  # its loop looks twice a second whether it is to end
            server.handle_error = _end_of_connection
            threading.Thread(target=_end_server, args=(server,), name="accumulators", daemon=True).start()
        context._accumulatorServer = context._jsc = None  # noqa: SLF001
    SparkContext._active_spark_context = None  # noqa: SLF001
    SparkSession._instantiatedSession = None  # noqa: SLF001
    SparkSession._activeSession = None  # noqa: SLF001
    SQLContext._instantiatedContext = None  # noqa: SLF001


def _end_of_connection(request: Any, address: Any) -> None:
    """Say nothing where the virtual machine has gone; by default there is a traceback on the terminal."""


def _end_server(server: Any) -> None:
    with contextlib.suppress(Exception):
        server.shutdown()


def _needs_no_goodbye(session: SparkSession) -> bool:
    """Whether nothing is lost when the virtual machine is killed, which takes a tenth of the time of its orderly end.

    What runs are to keep is durable by then, and its temporary files are deleted from here. A cluster has to be given back its
    executors; a log of events, or whatever else the pipeline's settings have listen, may have something to write at the end.
    """
    conf = dict(session.sparkContext.getConf().getAll())
    if not _LOCAL.fullmatch(conf.get("spark.master", "")) or conf.get("spark.eventLog.enabled", "false") != "false":
        return False
    options = " ".join(conf.get(f"spark.driver.{kind}JavaOptions", "") for kind in ("extra", "default"))
    return not (
        _WRITES_AT_END.search(options) or any(value and key.startswith(_LISTENING) for key, value in conf.items())
    )


def _end_java(*, at_once: bool = False) -> None:
    """End the Java virtual machine that pyspark started in this process, if there is one; pyspark has no public way."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway  # noqa: SLF001
    process = _own_java()
    if process is not None:
        if at_once:
            process.kill()
        _end_process(gateway, process)
        SparkContext._gateway = None  # noqa: SLF001
        SparkContext._jvm = None  # noqa: SLF001
    if process is not None or gateway is None:
        _delete_scratch()


def _end_process(gateway: Any, process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(Exception):  # py4j raises types of its own when the other side is gone
        gateway.shutdown()
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()  # the virtual machine ends when this pipe does
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(10)


def _delete_scratch() -> None:
    while _scratch:
        scratch = _scratch.pop()
        # pyspark puts a folder for modules, inside, on the path of modules.
        sys.path[:] = [entry for entry in sys.path if not entry.startswith(tuple(scratch.paths))]
        scratch.remove()
