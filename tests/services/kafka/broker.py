"""Private Kafka brokers: one node (KRaft) each, on loopback, small, ready in seconds.

Topics are made by whoever needs them, never by asking for one, and keep everything unless they say otherwise. Retention and
compaction look around every second, so that a test sees what they do. Data goes to the file system's cache only, which a killed broker does not lose.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from kafka.errors import KafkaError

from tests.services.kafka.client import Content, KafkaClient, dotted
from tests.services.kafka.programs import BROKER, command, environment, format_storage, start_on_free_port
from tests.services.processes import LOOPBACK, accepts_connections, free_port, scratch_folder, spawn, stop

__all__ = ["Content", "KafkaBroker", "write_properties"]

_SETTINGS: Mapping[str, object] = {
    "process.roles": "broker,controller",
    "node.id": 1,
    "controller.listener.names": "CONTROLLER",
    "auto.create.topics.enable": False,
    "broker.heartbeat.interval.ms": 500,
    "broker.session.timeout.ms": 3000,
    "num.network.threads": 1,
    "num.io.threads": 2,
    "group.coordinator.threads": 1,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1000,
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 1,
    "transaction.partition.verification.enable": True,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    "log.cleaner.dedupe.buffer.size": 4 << 20,
    "log.cleaner.backoff.ms": 1000,
    "log.initial.task.delay.ms": 1000,
    "log.retention.check.interval.ms": 1000,
    "log.retention.ms": -1,  # else records of a test's own time, such as 1970, are gone in a second
    "log.segment.delete.delay.ms": 1000,
}


class KafkaBroker(KafkaClient):
    """One private broker; start it, use it from any thread, stop it. Everything it wrote goes with `remove()`.

    Attributes:
        host: the loopback address.
        port: its port, which a restart keeps.
        data: its data folder.
        log: what it said.
    """

    def __init__(self, *, joins: KafkaBroker | None = None, **settings: object) -> None:
        """Makes the data folder, as new; the broker is not started yet.

        Args:
            joins: a running broker whose cluster this one is to be in, under another `node_id`.
            **settings: lines of `server.properties` that differ from the tests' usual ones, with `_` for `.`.
        """
        self.host = LOOPBACK
        self._folder = scratch_folder("kafka")
        self.data, self.log, self._properties = (self._folder / name for name in ("data", "log", "server.properties"))
        self._settings = {**_SETTINGS, "log.dirs": self.data, **dotted(settings)}
        self._joins = joins
        self._process: subprocess.Popen[bytes] | None = None
        self._choose_ports()
        node = int(str(self._settings["node.id"]))
        format_storage(self._properties, self.data, node=node, cluster=joins.cluster_id if joins else "")

    def _choose_ports(self) -> None:
        self.port = free_port()
        self._settings |= self._listeners()
        self._write()

    def _listeners(self) -> dict[str, object]:
        """Where it listens, on ports that were free a moment ago; further kinds of brokers listen elsewhere, too."""
        listener, voters = f"PLAINTEXT://{LOOPBACK}:{self.port}", "controller.quorum.voters"
        if self._joins:
            member = {"process.roles": "broker", voters: self._joins._settings[voters]}
            return {**member, "listeners": listener, "advertised.listeners": listener}
        controller = free_port()
        return {
            voters: f"1@{LOOPBACK}:{controller}",
            "listeners": f"{listener},CONTROLLER://{LOOPBACK}:{controller}",
            "advertised.listeners": listener,
        }

    def _write(self) -> None:
        write_properties(self._properties, self._settings)

    # ------------------------------------------------------------ life

    @property
    def bootstrap(self) -> str:
        """Its address, as `bootstrap.servers` wants it."""
        return f"{self.host}:{self.port}"

    @property
    def running(self) -> bool:
        """Whether the broker's process lives; it may still be recovering."""
        return self._process is not None and self._process.poll() is None

    def start(self, *, keep_classes: Path | None = None) -> KafkaBroker:
        """Starts the broker and waits until it answers; the first start may move to other free ports.

        Args:
            keep_classes: see `kafka_programs.command`.
        """
        started = command(BROKER, self._properties, keep_classes=keep_classes)
        self._process = start_on_free_port(
            lambda: spawn(started, log=self.log, environment=environment(), folder=self._folder),
            self._answers,
            log=self.log,
            seconds=90,
            busy="Address already in use",
            move=self._choose_ports if self._process is None else None,
        )
        return self

    def _answers(self) -> bool:
        """Whether it serves clients; a stranger on the port does not speak its protocol."""
        if not accepts_connections(self.port):
            return False
        try:
            with self.admin() as admin:
                return bool(admin.describe_cluster()["brokers"])
        except (KafkaError, OSError):
            return False

    def stop(self) -> None:
        """Shuts down in order."""
        if self._process:
            stop(self._process)

    def kill(self) -> None:
        """Kills the broker at once, as a crash would; `start()` then recovers its logs."""
        if self._process and self.running:
            self._process.kill()
            self._process.wait(120)

    def freeze(self) -> None:
        """Stops the process where it is: connections stay open, and nothing is answered. `thaw` lets it go on; a kill works meanwhile."""
        if self._process:
            self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Lets the process go on."""
        if self._process:
            self._process.send_signal(signal.SIGCONT)

    def restart(self, **settings: object) -> None:
        """Stops and starts again on the same port and data, with `settings` changed."""
        self.stop()
        self._settings |= dotted(settings)
        self._write()
        self.start()

    def remove(self) -> None:
        """Stops the broker at once and deletes everything it wrote."""
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


def write_properties(path: Path, settings: Mapping[str, object]) -> Path:
    """A Java properties file."""
    form = {True: "true", False: "false"}
    lines = (f"{name}={form[value] if isinstance(value, bool) else value}\n" for name, value in settings.items())
    path.write_text("".join(lines))
    return path
