"""Apicurio's schema registry, in memory, and its converters for Kafka Connect."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tarfile
import tempfile
import urllib.request
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.services.artifacts import CONVERTER, REGISTRY, cache_folder, fetch
from tests.services.kafka.programs import java, start_on_free_port
from tests.services.processes import LOOPBACK, accepts_connections, free_port, scratch_folder, spawn, stop

AVRO = "io.apicurio.registry.utils.converter.AvroConverter"
_RUNNER = f"{REGISTRY.name}-{REGISTRY.version}-runner.jar"
_SERVICE = "META-INF/services/org.apache.kafka.connect.storage.Converter"


class ApicurioRegistry:
    """One private registry; start it, use it, remove it.

    Attributes:
        log: what it said.
    """

    def __init__(self) -> None:
        self._folder = scratch_folder("registry")
        self.log, self._port = self._folder / "log", free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, interface: str = "ccompat/v7") -> str:
        """The address of an interface: `ccompat/v7` (Confluent's), `registry/v2`, `registry/v3`."""
        return f"http://{LOOPBACK}:{self._port}/apis/{interface}"

    def start(self) -> ApicurioRegistry:
        """Starts it and waits until it answers."""
        self._process = start_on_free_port(
            self._launch,
            lambda: accepts_connections(self._port),
            log=self.log,
            seconds=120,
            busy="already in use",
            move=self._move,
        )
        return self

    def register(
        self, subject: str, schema: str, language: str = "AVRO", references: Sequence[Mapping[str, object]] = ()
    ) -> int:
        """Registers a schema by Confluent's interface and returns its id there.

        Args:
            subject: Its name.
            schema: Its text.
            language: `AVRO` or `PROTOBUF`.
            references: What it refers to: `{"name": …, "subject": …, "version": …}` each.
        """
        body = {"schemaType": language, "schema": schema, "references": list(references)}
        request = urllib.request.Request(
            f"{self.url()}/subjects/{subject}/versions",
            json.dumps(body).encode(),
            {"Content-Type": "application/vnd.schemaregistry.v1+json"},
        )
        with urllib.request.urlopen(request, timeout=20) as response:
            answer: Any = json.load(response)
        return int(answer["id"])

    def remove(self) -> None:
        """Stops it and deletes what it wrote."""
        if self._process:
            stop(self._process)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _launch(self) -> subprocess.Popen[bytes]:
        settings = [f"-Dquarkus.http.host={LOOPBACK}", f"-Dquarkus.http.port={self._port}"]
        small = ["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xshare:auto"]
        return spawn([java(), *small, *settings, "-jar", _program() / _RUNNER], log=self.log, folder=self._folder)

    def _move(self) -> None:
        self._port = free_port()


def _program() -> Path:
    """The unpacked registry."""

    def unpack(folder: Path) -> None:
        with tarfile.open(fetch(REGISTRY)) as archive:
            archive.extraction_filter = lambda member, _: member  # checksum checked; `filter=` needs Python 3.11.4
            archive.extractall(folder)

    return _kept(f"registry-{REGISTRY.version}", unpack)


def converters() -> Path:
    """A folder for Connect's `plugin.path`, in which the converters have class loaders of their own."""

    def fill(folder: Path) -> None:
        plugin = folder / "avro"
        plugin.mkdir()
        for artifact in CONVERTER:
            shutil.copy(fetch(artifact), plugin)
        # This release does not list its plugins for Connect, and scanning all its classes would take long.
        with zipfile.ZipFile(plugin / "services.jar", "w") as services:
            services.writestr(_SERVICE, f"{AVRO}\n")

    digest = hashlib.sha256("".join(artifact.sha256 for artifact in CONVERTER).encode()).hexdigest()[:12]
    return _kept(f"converters-{digest}", fill)


def _kept(name: str, make: Callable[[Path], None]) -> Path:
    """A folder of the cache that is made once; another process may be making it, too."""
    target = cache_folder() / "apicurio" / name
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".partial-") as partial:
            made = Path(partial) / name
            made.mkdir()
            make(made)
            try:
                made.rename(target)
            except OSError:  # the other one was first
                if not target.exists():
                    raise
    return target
