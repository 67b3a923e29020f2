"""A pipeline that has run once, from SQLite into a target that keeps nothing, and a service that has it."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest
from typer.testing import CliRunner

from replicator_runtime.service.store.tables import Pipeline
from replicator_state import ReplicatorDirectory
from tests.architecture.packages import ROOT
from tests.runtime.plugin_packages import VOID_TARGET, install
from tests.runtime.service.services import Service, running

PIPELINE = "/v1/contexts/default/pipelines/shop"
IMAGE, DOTTED = "<img src=x onerror=alert(1)>", 'a.b"c'
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ran:
    """A pipeline that has run.

    Attributes:
        folder: With its state in `state`; to be copied.
        config: Its JSON.
        python_path: By which processes find its target.
    """

    folder: Path
    config: dict[str, Any]
    python_path: str

    def copy_to(self, folder: Path) -> ReplicatorDirectory:
        """Its state, below another folder."""
        shutil.copytree(self.folder / "state", folder / "state")
        return ReplicatorDirectory(str(folder / "state"), "default", "shop")


def run_once(folder: Path) -> Ran:
    """Make a database and run a pipeline once."""
    with closing(sqlite3.connect(folder / "shop.db")) as shop:
        for table in ("orders", "items", IMAGE, DOTTED):
            shop.execute(f"CREATE TABLE {quoted(table)} (id INTEGER PRIMARY KEY, total DECIMAL(8,2))")
        shop.commit()
    site = folder / "site"
    site.mkdir()
    install(site, "void", VOID_TARGET)
    document = {
        "name": "shop",
        "stages": [
            {
                "name": "in",
                "plugin": {"name": "sqlite", "type": "cdcSource", "properties": {"path": str(folder / "shop.db")}},
            },
            {"name": "out", "plugin": {"name": "void", "type": "cdcTarget"}},
        ],
        "connections": [{"from": "in", "to": "out"}],
        "tables": [{"table": table} for table in ("orders", "items", IMAGE, DOTTED)],
    }
    file = folder / "pipeline.json"
    file.write_text(json.dumps({**document, "offsetBasePath": str(folder / "state")}), "utf-8")
    from replicator_runtime.cli.app import app

    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(site))
        done = CliRunner().invoke(app, ["run", str(file), "--until-current"])
    assert done.exit_code == 0, done.stderr
    packages = [ROOT / part for part in ("sdk", "state", "runtime", "plugins/sources", "plugins/targets")]
    return Ran(folder, document, os.pathsep.join(map(str, [site, *packages])))


@contextmanager
def with_pipeline(folder: Path, config: dict[str, Any]) -> Iterator[Service]:
    """A service whose pipeline `shop` has this JSON."""
    with running(folder) as service:
        add_pipeline(service, {**config, "offsetBasePath": str(folder / "state")})
        yield service


def add_pipeline(service: Service, config: dict[str, Any], name: str = "shop", namespace: str = "default") -> None:
    """Have the service have a pipeline, as if it had been created there; one that is there stays."""
    now = datetime.now(UTC)
    row = Pipeline(namespace=namespace, name=name, created=now, updated=now, config=json.dumps(config))
    with service.context.database.session() as session:
        if session.get(Pipeline, (namespace, name)) is None:
            session.add(row)


def awaited(look: Callable[[], T | None], what: str, seconds: float = 60.0) -> T:
    """What `look` gives once that is something."""
    deadline = time.monotonic() + seconds
    while True:
        if found := look():
            return found
        assert time.monotonic() < deadline, f"{what} did not happen in {seconds:g} s"
        time.sleep(0.05)


def quoted(name: str) -> str:
    """A name in SQL."""
    return '"' + name.replace('"', '""') + '"'


@pytest.fixture(scope="session")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """A pipeline that has run; its state is to be copied."""
    return run_once(tmp_path_factory.mktemp("ran"))


@pytest.fixture
def shop(ran: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A service with that pipeline."""
    monkeypatch.setenv("PYTHONPATH", ran.python_path)
    ran.copy_to(tmp_path)
    with with_pipeline(tmp_path, ran.config) as service:
        yield service
