"""`replicator maintain` does what is due without a run, and says what it did to each table."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replicator_state import ReplicatorDirectory
from tests.runtime.cli.conftest import Replicator
from tests.runtime.plugin_packages import install

_TARGET = """
from pathlib import Path
from replicator_sdk import *

class Config(PluginConfig):
    fault: str

class Consumer(EventConsumer):
    def apply_ddl(self, event): pass
    def apply_dml(self, event): pass
    def stop(self): pass

class Maintained(DeltaTarget):
    name = "maintained"
    config_type = Config
    steps = {}

    def create_consumer(self, context): return Consumer()

    @property
    def maintenance_tasks(self):
        return (MaintenanceTask("compact", 86400.0), MaintenanceTask("prune", 86400.0))

    def maintain_table(self, context, task, table):
        if task.name == Path(self.config.fault).read_text():
            raise OSError("the store is away")
        done = self.steps[table] = self.steps.get(table, 0) + 1
        return MaintenanceReport(done % 2 == 0, 10 - done, 9 - done, 1000, 100)


@hookimpl
def delta_targets(): return [Maintained]
"""


@pytest.fixture
def pipeline(replicator: Replicator, sqlite_pipeline: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pipeline that has run once."""
    site = sqlite_pipeline.parent / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    install(site, "maintained", _TARGET)
    (site / "fault").write_text("")
    document = json.loads(sqlite_pipeline.read_text())
    properties = {"fault": str(site / "fault")}
    document["stages"][1]["plugin"] = {"name": "maintained", "type": "cdcTarget", "properties": properties}
    document["tables"] = [{"table": "orders"}, {"table": "old_orders"}]
    sqlite_pipeline.write_text(json.dumps(document))
    done = replicator("run", sqlite_pipeline, "--until-current")
    assert done.exit_code == 0, done.stderr
    return sqlite_pipeline


Maintain = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def maintain(replicator: Replicator, pipeline: Path) -> Maintain:
    def run(*arguments: str) -> list[dict[str, Any]]:
        done = replicator("maintain", pipeline, *arguments, "--json")
        assert done.exit_code == 0, done.stdout
        found: list[dict[str, Any]] = json.loads(done.stdout)["data"]
        return found

    return run


def test_nothing_is_done_that_is_not_due(maintain: Maintain, replicator: Replicator, pipeline: Path) -> None:
    assert maintain() == []
    assert "nothing is due; --all does it nevertheless" in replicator("maintain", pipeline).stderr


def test_all_steps_of_a_task_are_done_and_counted_together(maintain: Maintain) -> None:
    (done,) = maintain("--all", "--table", "orders", "--task", "compact")
    assert (done["table"], done["task"], done["finished"]) == ("orders", "compact", True)
    assert (done["filesBefore"], done["filesAfter"]) == (9, 7)


def test_a_table_that_has_had_its_maintenance_is_not_due(
    maintain: Maintain, replicator: Replicator, pipeline: Path
) -> None:
    assert len(maintain("--all")) == 4
    assert maintain() == []
    assert replicator("run", pipeline, "--until-current").exit_code == 0
    shown = replicator("status", pipeline).stdout
    assert "MAINTAINED" in shown


def test_a_task_that_fails_is_shown_and_the_others_are_done(
    maintain: Maintain, replicator: Replicator, pipeline: Path
) -> None:
    (pipeline.parent / "site" / "fault").write_text("compact")
    done = replicator("maintain", pipeline, "--all", "--json")
    assert done.exit_code == 1
    failed = {(t["table"], t["task"]) for t in json.loads(done.stdout)["data"] if t["error"]}
    assert failed == {("orders", "compact"), ("old_orders", "compact")}
    assert json.loads(done.stdout)["error"]["code"] == "RPL-9000"


@pytest.mark.parametrize(
    ("arguments", "code"), [(("--table", "order"), "RPL-1203"), (("--task", "compacts"), "RPL-1204")]
)
def test_a_name_that_nothing_has_ends_with_3(
    replicator: Replicator, pipeline: Path, arguments: tuple[str, ...], code: str
) -> None:
    done = replicator("maintain", pipeline, *arguments)
    assert done.exit_code == 3
    assert f"error {code}" in done.stderr
    assert "did you mean" in done.stderr


def test_it_is_refused_while_a_run_is_going_on(replicator: Replicator, pipeline: Path) -> None:
    base = json.loads(pipeline.read_text())["offsetBasePath"]
    lease = ReplicatorDirectory(base, "default", "shop").acquire("another")
    done = replicator("maintain", pipeline, "--all")
    lease.release()
    assert done.exit_code == 3
    assert "error RPL-7130" in done.stderr
    assert "A run is going on, which maintains its tables by itself." in done.stderr
