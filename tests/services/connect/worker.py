"""Private Kafka Connect workers with Debezium's connectors, in distributed mode: what they know lives in their broker."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.services.kafka.broker import KafkaBroker, write_properties
from tests.services.kafka.programs import CONNECT, command, environment, start_on_free_port
from tests.services.processes import LOOPBACK, ServerError, free_port, scratch_folder, spawn, stop, tail

JSON = "org.apache.kafka.connect.json.JsonConverter"
_SETTINGS: Mapping[str, object] = {
    "key.converter": JSON,
    "value.converter": JSON,
    "config.storage.replication.factor": 1,
    "offset.storage.replication.factor": 1,
    "offset.storage.partitions": 1,
    "offset.flush.interval.ms": 1000,
    "status.storage.replication.factor": 1,
    "status.storage.partitions": 1,
    # A worker that was killed is missed after six seconds, and its work is given out at once.
    "session.timeout.ms": 6000,
    "heartbeat.interval.ms": 1000,
    "scheduled.rebalance.max.delay.ms": 0,
    "plugin.discovery": "service_load",
    "producer.linger.ms": 5,
}


class ConnectWorker:
    """One private worker; start it, give it connectors, stop it. Everything it wrote but its topics goes with `remove()`.

    Connectors outlive a restart, as does how far they were. JSON with schemas is what they write unless they say otherwise.

    Attributes:
        broker: where it writes to; it may be restarted underneath.
        port: of its REST interface on loopback.
        log: what it said.
    """

    def __init__(self, broker: KafkaBroker, *, exactly_once: bool = False, **settings: object) -> None:
        """Prepares a worker; it is not started yet.

        Args:
            broker: a running broker.
            exactly_once: write records and source offsets in transactions; without, a kill repeats what was written last.
            **settings: lines of the worker's properties that differ from the tests' usual ones, with `_` for `.`.
        """
        self.broker, self.port = broker, free_port()
        self._folder = scratch_folder("connect")
        self.log, self._properties = self._folder / "log", self._folder / "worker.properties"
        group = f"connect-{uuid.uuid4().hex[:10]}"
        self._settings: dict[str, object] = {
            **_SETTINGS,
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            **{f"{kind}.storage.topic": f"{group}-{kind}" for kind in ("config", "offset", "status")},
            "exactly.once.source.support": "enabled" if exactly_once else "disabled",
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        self._process: subprocess.Popen[bytes] | None = None

    # ------------------------------------------------------------ life

    @property
    def running(self) -> bool:
        """Whether the worker's process lives; its connectors may have failed."""
        return self._process is not None and self._process.poll() is None

    def start(self, *, keep_classes: Path | None = None) -> ConnectWorker:
        """Starts the worker and waits until it takes connectors; the first start may move to another free port.

        Args:
            keep_classes: see `kafka_programs.command`.
        """
        if self._process is None:
            self._choose_port()
        started = command(CONNECT, self._properties, keep_classes=keep_classes)
        self._process = start_on_free_port(
            lambda: spawn(started, log=self.log, environment=environment(), folder=self._folder),
            self._answers,
            log=self.log,
            seconds=120,
            busy="Failed to bind",
            move=self._choose_port if self._process is None else None,
        )
        return self

    def _choose_port(self) -> None:
        self.port = free_port()
        write_properties(self._properties, {**self._settings, "listeners": f"HTTP://{LOOPBACK}:{self.port}"})

    def _answers(self) -> bool:
        try:
            return isinstance(self._ask("GET", "connectors"), list)
        except (OSError, ConnectError):
            return False

    def stop(self) -> None:
        """Shuts down in order: connectors end and save how far they were."""
        if self._process:
            stop(self._process)

    def kill(self) -> None:
        """Kills the worker at once, as a crash would."""
        if self._process and self.running:
            self._process.kill()
            self._process.wait(120)

    def restart(self) -> None:
        """Stops and starts again, with the same connectors."""
        self.stop()
        self.start()

    def remove(self) -> None:
        """Stops the worker at once and deletes what it wrote to files."""
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    # ------------------------------------------------------------ connectors

    def create(self, name: str, config: Mapping[str, object], seconds: float = 180) -> None:
        """Makes a connector and waits until its tasks run.

        Raises:
            ServerError: it failed, or `seconds` went by.
        """
        self._ask("PUT", f"connectors/{name}/config", {key: _text(value) for key, value in config.items()})
        self.wait_running(name, seconds)

    def wait_running(self, name: str, seconds: float = 180) -> None:
        """Waits until all tasks of a connector run.

        Raises:
            ServerError: one failed, or `seconds` went by; with what it said.
        """
        deadline = time.monotonic() + seconds
        while True:
            states = self.states(name)
            if states and states.keys() == {"RUNNING"}:
                return
            if "FAILED" in states or time.monotonic() > deadline:
                raise ServerError(f"connector {name} is {states}:\n{tail(self.log)}")
            time.sleep(0.1)

    def states(self, name: str) -> dict[str, str]:
        """The states a connector's tasks are in, each with a trace where there is one; empty before it has tasks."""
        try:
            found = self._ask("GET", f"connectors/{name}/status")
        except ConnectError as error:
            if error.status in {404, 409, 503}:  # not known yet; the worker is about to take its work
                return {}
            raise
        return {task["state"]: task.get("trace", "") for task in found["tasks"]}

    def delete(self, name: str) -> None:
        """Ends a connector and waits until its tasks have let go of their source."""
        self._ask("PUT", f"connectors/{name}/stop")
        deadline = time.monotonic() + 120
        while self._ask("GET", f"connectors/{name}/status")["tasks"] and time.monotonic() < deadline:
            time.sleep(0.1)
        self._ask("DELETE", f"connectors/{name}")

    def _ask(self, method: str, path: str, body: Mapping[str, str] | None = None) -> Any:
        """What the REST interface answers; asks again while the worker gives out its work."""
        for attempt in range(50):
            try:
                return self._ask_once(method, path, body)
            except ConnectError as error:
                if error.status != 409 or method == "GET" or attempt == 49:
                    raise
            time.sleep(0.2)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _ask_once(self, method: str, path: str, body: Mapping[str, str] | None) -> Any:
        request = urllib.request.Request(
            f"http://{LOOPBACK}:{self.port}/{path}",
            json.dumps(body).encode() if body is not None else None,
            {"Content-Type": "application/json"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=20) as response:
                content = response.read()
        except urllib.error.HTTPError as error:
            with error:
                raise ConnectError(error.code, error.read().decode(errors="replace")) from None
        return json.loads(content) if content else None


class ConnectError(RuntimeError):
    """The REST interface refused.

    Attributes:
        status: its HTTP status.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"HTTP {status}: {message}")
        self.status = status


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
