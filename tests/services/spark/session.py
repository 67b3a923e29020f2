"""Spark for the tests: settings small enough for two cores, Delta from the cache, and a real two-worker cluster."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path

import pyspark

from replicator_target_delta.plugin import session_settings
from tests.services.artifacts import delta_jars
from tests.services.processes import (
    LOOPBACK,
    accepts_connections,
    free_port,
    scratch_folder,
    spawn,
    stop,
    wait_until,
)
from tests.services.spark import class_archive

# Short-lived: no time is spent on code that is optimised when the test is over, and little on loading classes.
_JAVA = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dderby.system.home=/tmp {class_archive.options()}"
# Every default of Spark and Delta that is meant for a cluster costs seconds per statement on two cores.
SMALL: Mapping[str, str] = {
    "spark.driver.memory": "1500m",
    "spark.driver.bindAddress": LOOPBACK,
    "spark.driver.host": LOOPBACK,
    "spark.driver.extraJavaOptions": _JAVA,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.default.parallelism": "2",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.databricks.delta.snapshotPartitions": "2",
}
DELTA: Mapping[str, str] = session_settings(2, "/")
# Only this variable gives executors the interpreter to use; `spark.pyspark.python` is for spark-submit.
INTERPRETER: Mapping[str, str] = {"PYSPARK_PYTHON": sys.executable}


# The same for a program that sets up Spark by itself.
JAVA_OPTIONS: Mapping[str, str] = {"JDK_JAVA_OPTIONS": _JAVA}


def settings() -> dict[str, str]:
    """Spark settings for a test: small, with Delta, its jars as local files so that nothing is resolved at the start."""
    return {**SMALL, **DELTA, "spark.jars": ",".join(map(str, delta_jars()))}


class StandaloneCluster:
    """A Spark standalone master and its workers, each a process of its own on loopback; `url` is the `spark.master`."""

    def __init__(self, workers: int = 2, *, memory: str = "1g") -> None:
        """Describes the cluster; nothing is started yet.

        Args:
            workers: number of worker processes, one core each.
            memory: what each worker offers to executors, in Spark's form.
        """
        self._count, self._memory = workers, memory
        self._folder = scratch_folder("spark")
        self._processes: list[subprocess.Popen[bytes]] = []
        self._port, self._page = free_port(), free_port()
        self.url = f"spark://{LOOPBACK}:{self._port}"

    def start(self) -> StandaloneCluster:
        """Starts master and workers and waits until every worker is registered."""
        master = self._launch("master", "Master", "--port", str(self._port), "--webui-port", str(self._page))
        wait_until(lambda: accepts_connections(self._port), process=master, log=self.log("master"), seconds=180)
        for number in range(self._count):
            name = f"worker-{number}"
            arguments = ["--cores", "1", "--memory", self._memory, "--webui-port", "0", "--work-dir"]
            self._launch(name, "Worker", *arguments, str(self._folder / name), self.url)
        wait_until(lambda: self.alive() == self._count, process=master, log=self.log("master"), seconds=180)
        return self

    def log(self, name: str) -> Path:
        """The log file of `master`, or of a worker: `worker-0`, `worker-1` and so on."""
        return self._folder / f"{name}.log"

    def _launch(self, name: str, role: str, *arguments: str) -> subprocess.Popen[bytes]:
        home = Path(pyspark.__file__).parent
        environment = {
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": _JAVA,
            "SPARK_WORKER_OPTS": "-Dspark.worker.cleanup.enabled=true",
            **INTERPRETER,
        }
        command: list[str | Path] = [
            home / "bin/spark-class",
            f"org.apache.spark.deploy.{role.lower()}.{role}",
            "--host",
            LOOPBACK,
        ]
        process = spawn(
            [*command, *arguments],
            log=self.log(name),
            environment=environment,
            folder=self._folder,
            death_signal=signal.SIGTERM,  # a worker then ends its executors
        )
        self._processes.append(process)
        return process

    def alive(self) -> int:
        """How many workers the master counts as alive."""
        try:
            with urllib.request.urlopen(f"http://{LOOPBACK}:{self._page}/json/", timeout=5) as answer:
                return int(json.load(answer)["aliveworkers"])
        except (OSError, ValueError):  # the page answers before its content is attached
            return 0

    def settings(self) -> dict[str, str]:
        """Spark settings with which a driver in this process uses the cluster: one small executor on each worker."""
        return {
            **settings(),
            "spark.master": self.url,
            "spark.executor.memory": "700m",
            "spark.executor.cores": "1",
            "spark.cores.max": str(self._count),
            "spark.executor.extraJavaOptions": _JAVA,
        }

    def kill_worker(self, number: int) -> None:
        """Kills a worker at once; its executors end when they notice."""
        process = self._processes[1 + number]
        process.kill()
        process.wait(120)

    def remove(self) -> None:
        """Stops all processes and deletes what they wrote."""
        for process in reversed(self._processes):
            stop(process)
        shutil.rmtree(self._folder, ignore_errors=True)
