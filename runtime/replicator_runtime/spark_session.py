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
from typing import TYPE_CHECKING, Any

import psutil

from replicator_runtime.java import require_java
from replicator_runtime.redaction import contains_secret, redact_error
from replicator_runtime.spark_jars import cache_folder, local_jars
from replicator_sdk.errors import NeedsUserError, RetryableError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOCAL = re.compile(r"local(?:\[(?P<cores>\*|\d+)(?:,\s*\d+)?\])?")
_LOOPBACK = "127.0.0.1"
_lock = threading.Lock()
_started: weakref.WeakSet[SparkSession] = weakref.WeakSet()  # the sessions that are ours


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
            when a session exists that lacks a setting which cannot be changed any more.
        RetryableError: RPL-7204 when Spark does not start (cluster away, packages not to be had).
    """
    settings = session_settings(
        master=master, conf=conf, packages=packages, cores=cores, memory_mb=memory_mb, py_files=py_files
    )
    session_type = _import_pyspark()
    with _lock:
        if _exists():
            return _fitting(session_type.builder.getOrCreate(), settings)
        if not _submitted():
            require_java()
        _set_interpreter(master, settings)
        return _start(session_type, name, settings)


def stop_session(session: SparkSession) -> None:
    """End a session that `build_session` started, and, unless `spark-submit` owns it, the Java virtual machine.

    With the virtual machine gone its memory is free, and the next session of this process can have other jars. May be
    called twice; a session that existed before is left alone.
    """
    with _lock:
        if session not in _started:
            return
        _started.discard(session)
        with contextlib.suppress(Exception):  # it may be dead already; what counts is that it is gone afterwards
            session.stop()
        _end_java()


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
        NeedsUserError: RPL-7203 when a setting holds a registered secret.
        ConfigError: RPL-7205 when a package is no Maven coordinate.
    """
    own = dict(conf or {})
    wanted = [*packages, *_listed(own.pop("spark.jars.packages", ""))]
    settings = {"spark.sql.session.timeZone": "UTC", "spark.log.level": "WARN"}
    local = _LOCAL.fullmatch(master)
    if local:
        settings |= _local_defaults(_cores(local["cores"], cores))
        master = f"local[{_cores(local['cores'], cores)}]" if local["cores"] in {"*", None} else master
    if memory_mb or local:
        settings["spark.driver.memory"] = f"{memory_mb or _heap_mb()}m"
    settings |= own
    if not _submitted():
        settings["spark.master"] = master
        settings |= _package_settings(list(dict.fromkeys(wanted)), own)
    if py_files:
        settings["spark.submit.pyFiles"] = ",".join([*_listed(own.get("spark.submit.pyFiles", "")), *py_files])
    _refuse_secrets(settings)
    return settings


def _local_defaults(cores: int) -> dict[str, str]:
    """Sizes for one machine: Spark's own defaults are for a cluster and cost seconds per statement here."""
    return {
        "spark.driver.host": _LOOPBACK,  # nobody from outside may reach the driver's ports
        "spark.driver.bindAddress": _LOOPBACK,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.default.parallelism": str(cores),
        "spark.sql.shuffle.partitions": str(cores),
        # Spark makes this folder, in the working directory unless told otherwise; nothing of ours is in it.
        "spark.sql.warehouse.dir": str(cache_folder() / "warehouse"),
    }


def _package_settings(packages: list[str], own: Mapping[str, str]) -> dict[str, str]:
    if not packages:
        return {}
    jars = local_jars(packages)
    if jars is None:
        return {"spark.jars.packages": ",".join(packages)}
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


def _submitted() -> bool:
    """Whether `spark-submit` (or the like) has started the virtual machine already."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _import_pyspark() -> type[SparkSession]:
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        hint = "pip install 'replicator[spark]', or run under the cluster's spark-submit"
        raise NeedsUserError("pyspark is not installed", code="RPL-7202", hint=hint) from error
    return SparkSession


def _set_interpreter(master: str, settings: Mapping[str, str]) -> None:
    # A driver tells its executors which interpreter to use by this variable only; the setting is for spark-submit.
    if chosen := settings.get("spark.pyspark.python"):
        os.environ["PYSPARK_PYTHON"] = chosen
    elif _LOCAL.fullmatch(master):
        os.environ["PYSPARK_PYTHON"] = sys.executable
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def _start(session_type: type[SparkSession], name: str, settings: dict[str, str]) -> SparkSession:
    builder = session_type.builder.appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        with _bound_to_loopback(local=settings.get("spark.master", "").startswith("local")):
            session = builder.getOrCreate()
    except Exception as error:
        _end_java()
        reason = redact_error(error).strip().partition("\n")[0]
        raise RetryableError(
            f"Spark did not start: {reason}",
            code="RPL-7204",
            hint="read Spark's own lines above; is the master reachable, and can the packages be had "
            f"({settings.get('spark.jars.packages') or 'none were asked for'})?",
        ) from error
    _started.add(session)
    return session


@contextlib.contextmanager
def _bound_to_loopback(*, local: bool) -> Iterator[None]:
    """Spark's launcher resolves the host's own name, and warns, unless this variable says the address."""
    before = os.environ.get("SPARK_LOCAL_IP")
    if local and before is None:
        os.environ["SPARK_LOCAL_IP"] = _LOOPBACK
    try:
        yield
    finally:
        if local and before is None:
            del os.environ["SPARK_LOCAL_IP"]


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


def _end_java() -> None:
    """End the Java virtual machine that pyspark started in this process, if there is one; pyspark has no public way."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway  # noqa: SLF001
    if gateway is None or getattr(gateway, "proc", None) is None:
        return
    process: subprocess.Popen[bytes] = gateway.proc
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
    SparkContext._gateway = None  # noqa: SLF001
    SparkContext._jvm = None  # noqa: SLF001
