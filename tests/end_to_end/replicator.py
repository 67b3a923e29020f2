"""The command `replicator run` in a process of its own, as a person runs it: a pipeline file, arguments, an exit code."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.follows import advised
from tests.services.forks import Forked, fork
from tests.services.mysql.client import Server as MysqlAddress
from tests.services.postgres.server import PostgresDatabase
from tests.services.processes import spawn, tail
from tests.services.spark import kept_java
from tests.services.spark.kept_java import KeptJava
from tests.services.spark.session import INTERPRETER, SMALL, StandaloneCluster

COMMAND = (sys.executable, "-c", "from replicator_runtime.cli import main; main()")
SECONDS = 300.0
SPARK: Mapping[str, Any] = {"master": kept_java.MASTER, "conf": dict(SMALL)}
"""The key `spark` of the tests' pipelines."""
_USES_SPARK = frozenset({"run", "verify", "explain-row", "maintain", "heal"})


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended: exit code (negative for a signal), what it said, and the JSON it printed, if it did."""

    status: int
    messages: str
    envelope: Mapping[str, Any]

    @property
    def error(self) -> Mapping[str, Any]:
        """The envelope's error; empty when there is none."""
        return self.envelope.get("error") or {}


@dataclass
class Replicator:
    """One replicator: its pipeline and folders below `folder`.

    Attributes:
        folder: State, lake, pipeline file and logs.
        source: The source stage's plugin: name and properties.
        target: The target stage's plugin; by default Delta below `folder`.
        lake_settings: Further properties of that Delta target.
        settings: Further keys of the pipeline JSON.
        command: What is run; tests of crashes put a wrapper here.
    """

    folder: Path
    source: tuple[str, Mapping[str, Any]]
    target: tuple[str, Mapping[str, Any]] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    lake_settings: Mapping[str, Any] = field(default_factory=dict)
    command: Sequence[str] = COMMAND
    environment: Mapping[str, str] = field(default_factory=dict)
    _runs: int = 0

    @property
    def lake(self) -> Path:
        """Where the default target keeps its tables."""
        return self.folder / "lake"

    @property
    def state(self) -> Path:
        """Offsets and state."""
        return self.folder / "state"

    @property
    def pipeline(self) -> Path:
        """The pipeline file; there once a run was started."""
        return self.folder / "pipeline.json"

    def document(self) -> dict[str, Any]:
        """The pipeline JSON."""
        target = self.target or ("delta", {"path": str(self.lake), **self.lake_settings})
        return {
            "name": "shop",
            "offsetBasePath": str(self.state),
            "stages": [
                {
                    "name": "source",
                    "plugin": {"name": self.source[0], "type": "cdcSource", "properties": self.source[1]},
                },
                {"name": "target", "plugin": {"name": target[0], "type": "cdcTarget", "properties": target[1]}},
            ],
            "connections": [{"from": "source", "to": "target"}],
            "retries": {"maxDurationSeconds": 60, "delaySeconds": 0.5},
            "spark": SPARK,
            **self.settings,
        }

    def start(self, *arguments: str, **environment: str) -> Running:
        """Start a run; it dies with the tests."""
        self._write_pipeline()
        return self.start_command("run", str(self.pipeline), *arguments, **environment)

    def _write_pipeline(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.pipeline.write_text(json.dumps(self.document()))

    def start_command(self, *arguments: str, **environment: str) -> Running:
        """Start any command, with `--json`; it dies with the tests."""
        return self._start_command(arguments, environment, shares_java=kept_java.is_shared())

    def _start_command(self, arguments: Sequence[str], environment: Mapping[str, str], *, shares_java: bool) -> Running:
        self._runs += 1
        log = self.folder / f"run-{self._runs}.log"
        command = [*self.command, *arguments, "--json"]
        start = fork if command[0] == sys.executable else spawn
        variables = {**INTERPRETER, **self.environment, **environment}
        java = kept_java.take() if shares_java and self._may_share_java(arguments[0], variables) else None
        process = start(command, log=log, environment={**variables, **(java.variables() if java else {})})
        if java:
            java.ended = process.poll
        return Running(process, log, java)

    def _may_share_java(self, command: str, variables: Mapping[str, str]) -> bool:
        """Whether a command needs Spark, and no other than that of a virtual machine which others have used."""
        if command not in _USES_SPARK or tuple(self.command) != COMMAND:
            return False
        return variables == INTERPRETER and self.document()["spark"] == SPARK

    def run(self, *arguments: str, seconds: float = SECONDS, **environment: str) -> Ended:
        """Run to the end."""
        return self.start(*arguments, **environment).wait(seconds)

    def follow(self, error: Mapping[str, Any], command: str) -> Ended:
        """Run the command that an error's next step names, as it is printed; what it asks is answered with yes."""
        words = advised([error["hint"]], command)
        ended = self.start_command(*words).wait()
        if ended.error.get("code") == "RPL-1228":
            ended = self.start_command(*words, "--yes").wait()
        assert ended.status == 0, ended.messages
        return ended

    def copied(self, ended: Ended) -> list[str]:
        """The tables of which the run that ended began a copy; what it printed may lack the state of a short one."""
        [log] = self.state.glob(f"*/*/logs/run-*-{ended.envelope['data']['runId']}.log")
        lines = map(json.loads, log.read_text().splitlines())
        return [line["table"] for line in lines if line["event"] == "snapshot.begin"]

    def until_current(self, seconds: float = SECONDS) -> Ended:
        """Run until everything committed at the source is at the target; the run must succeed.

        It is not killed, so it may have a virtual machine that others have used.
        """
        self._write_pipeline()
        arguments = ("run", str(self.pipeline), "--until-current")
        ended = self._start_command(arguments, {}, shares_java=True).wait(seconds)
        assert ended.status == 0, ended.messages
        assert ended.envelope["data"]["upToDate"], ended.messages
        return ended


@dataclass(frozen=True, slots=True)
class Running:
    """A run under way; with the virtual machine that it has of others, if any."""

    process: subprocess.Popen[bytes] | Forked
    log: Path
    java: KeptJava | None = None

    def wait(self, seconds: float = SECONDS) -> Ended:
        """Wait for the end; kills the process and fails when that takes too long."""
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"not ended after {seconds} s:\n{tail(self.log, 60)}") from None
        if self.java:
            self.java.give_back(status)
        messages = self.log.read_text(errors="replace")
        return Ended(status, messages, _envelope(messages))

    def stop(self, seconds: float = 120) -> Ended:
        """Ask it to end, as Ctrl-C or systemd does, and wait."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait(seconds)

    def kill(self) -> None:
        """SIGKILL it and what it started: a power cut for the replicator, not for the source."""
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended by itself meanwhile
                os.killpg(self.process.pid, signal.SIGKILL)
        status = self.process.wait(120)
        if self.java:
            self.java.give_back(status)

    def said(self, text: str, seconds: float = SECONDS) -> None:
        """Wait until its output holds `text`."""
        deadline = time.monotonic() + seconds
        has_ended = False
        while text not in self.log.read_text(errors="replace"):
            assert not has_ended, f"ended with {self.process.returncode}:\n{tail(self.log, 60)}"
            assert time.monotonic() < deadline, f"never said {text!r}:\n{tail(self.log, 60)}"
            time.sleep(0.1)
            has_ended = self.process.poll() is not None  # what it says last comes before its end


def _envelope(messages: str) -> Mapping[str, Any]:
    """The JSON document of standard output, which has lines of its own among the messages."""
    start = messages.rfind("\n{\n") + 1 if not messages.startswith("{\n") else 0
    try:
        found, _ = json.JSONDecoder().raw_decode(messages, start)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def postgres_source(database: PostgresDatabase, **properties: Any) -> tuple[str, Mapping[str, Any]]:
    """The source stage for a test's database."""
    return "postgres", {
        "host": database.host, "port": database.port, "database": database.name, "user": database.user,
        "password": database.password, "sslMode": "disable", **properties,
    }  # fmt: skip


def mysql_source(server: MysqlAddress, **properties: Any) -> tuple[str, Mapping[str, Any]]:
    """The source stage for a MySQL or MariaDB, or one database of it."""
    return "mysql", {
        "host": server.host, "port": server.port, "user": server.user, "password": server.password,
        "sslMode": "disable", **properties,
    }  # fmt: skip


def cluster_settings(cluster: StandaloneCluster) -> Mapping[str, Any]:
    """The pipeline's `spark` for a cluster: its address and sizes; extensions and jars are the plugins' business."""
    left_out = {"spark.master", "spark.jars"}
    given = {k: v for k, v in cluster.settings().items() if k not in left_out and not k.startswith("spark.sql.")}
    return {"master": cluster.url, "conf": given}
