"""Pipelines of a fake command line, and supervisors in processes of their own that can be killed."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import select as query

from replicator_runtime.service.observation.stored import directory_of, pipeline_row
from replicator_runtime.service.settings import Auth, ServiceSettings
from replicator_runtime.service.store.database import Database
from replicator_runtime.service.store.tables import Instance, Pipeline
from replicator_runtime.service.supervision import keeper
from replicator_runtime.service.supervision.assembly import create_supervisor
from replicator_runtime.service.supervision.files import PipelineFiles
from replicator_runtime.service.supervision.former.runs import FormerRuns
from replicator_runtime.service.supervision.states import Wanted
from replicator_runtime.service.supervision.supervisor import Supervisor
from tests.waits import until

NAMESPACE = "default"
FAKE = (sys.executable, "-I", "-S", str(Path(__file__).with_name("fake_replicator.py")))


def settings_in(folder: Path, *, stop_seconds: float = 30.0) -> ServiceSettings:
    """Settings of a service whose command line is the fake one."""
    return ServiceSettings(
        store=f"sqlite:///{folder / 'service.db'}",
        base_path=str(folder / "state"),
        work_folder=folder / "work",
        auth=Auth.NONE,
        stop_seconds=stop_seconds,
        replicator=FAKE,
    )


def supervisor_of(settings: ServiceSettings, database: Database) -> Supervisor:
    """A supervisor that is not started yet."""
    settings.work_folder.mkdir(parents=True, exist_ok=True)
    former = FormerRuns(lambda *key: directory_of(pipeline_row(database, *key), settings.base_path))
    return create_supervisor(settings, database, PipelineFiles(settings.work_folder / "pipelines"), former)


def lives(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not waited for does not."""
    try:
        return b") Z" not in Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False


@dataclass(slots=True)
class Pipelines:
    """Pipelines of a database, and what their fake processes have logged."""

    folder: Path
    settings: ServiceSettings
    database: Database
    services: list[int] = field(default_factory=list)

    def add(self, name: str = "shop", behaviour: str = "", *, wanted: Wanted = Wanted.STARTED) -> None:
        """Store a pipeline."""
        config = {"name": name, "description": behaviour, "offsetBasePath": self.settings.base_path}
        now = datetime.now(UTC)
        with self.database.session() as session:
            session.add(
                Pipeline(
                    namespace=NAMESPACE, name=name, created=now, updated=now, config=json.dumps(config), wanted=wanted
                )
            )

    def want(self, wanted: Wanted, name: str = "shop", *, dismiss: bool = False) -> None:
        """Have it started, stopped or deleted; with `dismiss` as an operator does who asks again."""
        with self.database.session() as session:
            row = session.get(Pipeline, (NAMESPACE, name))
            assert row is not None
            row.wanted = wanted
            if dismiss:
                newest = self.instances(name)[-1].instance_id
                session.get_one(Instance, newest).dismissed = datetime.now(UTC)

    def behave(self, behaviour: str, name: str = "shop") -> None:
        """Another behaviour from its next start on."""
        base = Path(self.settings.base_path)
        base.mkdir(exist_ok=True)
        (base / f"{name}.behaviour").write_text(behaviour)

    def lines(self, name: str = "shop") -> list[str]:
        """What its processes have logged."""
        path = Path(self.settings.base_path) / f"{name}.log"
        return path.read_text().splitlines() if path.exists() else []

    def began(self, name: str = "shop", command: str = "run") -> list[int]:
        """The numbers of its processes."""
        return [int(line.split()[1]) for line in self.lines(name) if line.startswith(command)]

    def instances(self, name: str = "shop") -> list[Instance]:
        """Its rows, the oldest first."""
        with self.database.session() as session:
            return list(session.scalars(query(Instance).where(Instance.name == name).order_by(Instance.instance_id)))

    def newest(self, name: str = "shop") -> Instance:
        """Its newest row."""
        return self.instances(name)[-1]

    def names(self) -> list[str]:
        """The stored pipelines."""
        with self.database.session() as session:
            return list(session.scalars(query(Pipeline.name).order_by(Pipeline.name)))

    def place(self, instance: Instance) -> Path:
        """The folder of a process."""
        return Path(json.loads(instance.handle)["folder"])

    def left(self) -> list[Path]:
        """Files of pipelines, and folders of processes."""
        work = self.settings.work_folder
        return [*(work / "instances").glob("*"), *(work / "pipelines").rglob("*.json")]

    def keeper_of(self, instance: Instance) -> int:
        """The number of the process that keeps it."""
        found: Mapping[str, int] = json.loads((self.place(instance) / keeper.PROCESS).read_text())
        return found["pid"]

    @contextmanager
    def supervised(self) -> Iterator[Supervisor]:
        """A supervisor in this process."""
        supervisor = supervisor_of(self.settings, self.database)
        supervisor.start()
        try:
            yield supervisor
        finally:
            supervisor.close()

    def end_all(self) -> None:
        """Kill what still runs."""
        for pid in self.services:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for path in (self.settings.work_folder / "instances").glob(f"*/{keeper.PROCESS}"):
            pid = json.loads(path.read_text()).get("pid")
            if pid and lives(pid) and b"keeper.py" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
                until(lambda pid=pid: not lives(pid), "a keeper has ended")  # type: ignore[misc]
        self.database.close()


class Services:
    """Starts supervisors in processes of their own, each a fork of one that has imported all."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.runtime.service.supervision.forked_services"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, pipelines: Pipelines, *, failpoints: str = "") -> int:
        """Start one; its process number."""
        assert self._process.stdin
        assert self._process.stdout
        order = {"folder": str(pipelines.folder), "failpoints": failpoints, "stop": pipelines.settings.stop_seconds}
        print(json.dumps(order), file=self._process.stdin, flush=True)
        pid = int(self._process.stdout.readline())
        pipelines.services.append(pid)
        return pid

    def close(self) -> None:
        """End the process that forks them."""
        self._process.communicate()


def killed(pid: int, what: str = "the service was killed") -> None:
    """Wait until a service is gone."""
    until(lambda: not lives(pid), what)


def kill(pid: int) -> None:
    """Kill a service, as the kernel does when memory is short."""
    os.kill(pid, signal.SIGKILL)
    killed(pid)


@pytest.fixture
def pipelines(tmp_path: Path) -> Iterator[Pipelines]:
    """Pipelines in a database of their own; what still runs at the end is killed."""
    settings = settings_in(tmp_path)
    database = Database(settings.store)
    database.prepare()
    made = Pipelines(tmp_path, settings, database)
    yield made
    made.end_all()


@pytest.fixture(scope="module")
def services() -> Iterator[Services]:
    """Starts services that can be killed."""
    found = Services()
    yield found
    found.close()


def readable(descriptor: int) -> bool:
    """Whether a descriptor is readable now."""
    return bool(select.select([descriptor], [], [], 0)[0])
