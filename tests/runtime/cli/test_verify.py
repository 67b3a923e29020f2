"""`replicator verify` refuses what it cannot compare, with a code and the next step, and starts no Spark for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replicator_runtime.cli import reading
from replicator_runtime.cli.commands.checks.repair import Repaired, Repairing
from replicator_runtime.cli.commands.checks.verify import now_and_then
from replicator_runtime.engine.verification.table_comparison import Comparison
from replicator_runtime.engine.verification.verify import Verified
from replicator_sdk import TableId
from replicator_sdk.errors import RetryableError
from replicator_state import ReplicatorDirectory
from tests.runtime.cli.conftest import Replicator
from tests.runtime.plugin_packages import install

_TARGET = """
from pathlib import Path
from replicator_sdk import *
from replicator_sdk.errors import NeedsUserError

class Config(PluginConfig):
    reads: bool = True

class Consumer(EventConsumer):
    def apply_ddl(self, event):
        if event.table.table == "old_orders":
            raise NeedsUserError("no", code="TST-0001", table=str(event.table))
    def apply_dml(self, event): pass
    def stop(self): pass

class Reader(TableReader):
    def progress(self, table): raise NotImplementedError
    def open(self, schema): raise NotImplementedError

class Half(DeltaTarget):
    name = "half"
    config_type = Config
    def create_consumer(self, context): return Consumer()
    def create_table_reader(self, context): return Reader() if self.config.reads else None

@hookimpl
def delta_targets(): return [Half]
"""

Refused = Callable[..., dict[str, Any]]


@pytest.fixture
def refused(replicator: Replicator) -> Refused:
    def run(*arguments: str | Path) -> dict[str, Any]:
        done = replicator("verify", *arguments, "--json")
        assert done.exit_code == 3, done.stdout
        error: dict[str, Any] = json.loads(done.stdout)["error"]
        assert error["hint"]
        return error

    return run


@pytest.fixture
def pipeline(replicator: Replicator, sqlite_pipeline: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pipeline with a table that was copied and one that fails."""
    site = sqlite_pipeline.parent / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    install(site, "half", _TARGET)
    _edit(sqlite_pipeline, {})
    assert replicator("run", sqlite_pipeline, "--until-current").exit_code == 3
    return sqlite_pipeline


def _edit(file: Path, properties: dict[str, Any], *tables: str) -> None:
    document = json.loads(file.read_text())
    document["stages"][1]["plugin"] = {"name": "half", "type": "cdcTarget", "properties": properties}
    document["tables"] = [{"table": table} for table in tables or ("orders", "old_orders")]
    file.write_text(json.dumps(document))


def test_a_pipeline_that_never_ran_is_refused(refused: Refused, sqlite_pipeline: Path) -> None:
    assert refused(sqlite_pipeline)["code"] == "RPL-1201"


def test_an_unknown_table_is_refused_and_so_is_one_that_the_pipeline_leaves_out(
    refused: Refused, pipeline: Path
) -> None:
    assert refused(pipeline, "nothing")["code"] == "RPL-1220"
    _edit(pipeline, {}, "orders")
    assert refused(pipeline, "old_orders")["code"] == "RPL-1220"


def test_a_name_without_the_file_is_refused(refused: Refused, pipeline: Path) -> None:
    assert refused("shop", "--base", pipeline.parent / "state")["code"] == "RPL-1360"


@pytest.mark.parametrize("other", ["--repair", "--show-keys"])
def test_options_that_do_not_go_together_are_refused_as_such(
    replicator: Replicator, pipeline: Path, other: str
) -> None:
    done = replicator("verify", pipeline, "--every", "1h", other)
    assert done.exit_code == 2
    assert "it goes without" in done.stderr
    assert "RPL-" not in done.stderr


def test_where_no_terminal_is_a_line_now_and_then_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, said = [0.0], list[str]()
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    note = now_and_then(said.append, 10)
    for second in range(25):
        clock[0] = float(second)
        note(f"range {second}")
    assert said == ["range 10", "range 20"]


def test_a_table_that_fails_is_not_compared(replicator: Replicator, pipeline: Path) -> None:
    done = replicator("verify", pipeline, "old_orders", "--json")
    assert done.exit_code == 3
    envelope = json.loads(done.stdout)
    assert envelope["error"]["code"] == "RPL-1365"
    (table,) = envelope["data"]["tables"]
    assert (table["result"], table["rowsSource"], table["error"]["code"]) == ("not compared", None, "RPL-1365")
    text = replicator("verify", pipeline, "old_orders")
    assert "not compared" in text.stdout
    assert "RPL-1365" in text.stderr


def test_a_target_that_cannot_be_read_is_refused(refused: Refused, pipeline: Path) -> None:
    _edit(pipeline, {"reads": False})
    assert refused(pipeline)["code"] == "RPL-1362"


def test_a_source_without_snapshots_is_refused(refused: Refused, judged: Callable[..., Path], tmp_path: Path) -> None:
    file = judged()
    ReplicatorDirectory(str(tmp_path / "state"), "default", "judged").acquire("run").release()
    assert refused(file)["code"] == "RPL-1361"


@pytest.mark.parametrize("compared_again", [True, False])
def test_a_repaired_table_is_equal_only_when_it_was_compared_again(
    compared_again: bool, replicator: Replicator, sqlite_pipeline: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark may not start a second time: that the rows were written is no comparison."""
    table = TableId(database="main", table="orders")
    lost = RetryableError("Spark does not start", code="RPL-7204", hint="give the command again")
    again = Verified(table, 1.0, Comparison("9", 3, 3), None) if compared_again else Verified(table, 1.0, None, lost)
    answers = iter([Verified(table, 1.0, Comparison("9", 3, 2, missing=1), None), again])
    monkeypatch.setattr(reading, "read_beside_run", lambda *_: ([next(answers)], 0))
    monkeypatch.setattr(
        Repairing, "run", lambda *_, **__: {table: Repaired({"written": 1, "deleted": 0, "position": "9"})}
    )
    done = replicator("verify", sqlite_pipeline, "--repair", "--yes", "--json")
    shown = json.loads(done.stdout)
    assert shown["data"]["equal"] is compared_again
    assert shown["data"]["tables"][0]["result"] == "repaired"
    assert done.exit_code == (0 if compared_again else 4)
    assert (shown["error"] or {}).get("code") == (None if compared_again else "RPL-7204")
