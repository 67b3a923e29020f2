"""The command in this process, and a source and a target that say what a test wants them to."""

from __future__ import annotations

import itertools
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.runtime.plugin_packages import install

_numbers = itertools.count()

Replicator = Callable[..., Result]

JUDGED = """
import json
from pathlib import Path
from replicator_sdk import *
from replicator_sdk.errors import *
from replicator_sdk.datatype import INT64, STRING

ORDERS, ITEMS = TableId("shop", "orders", "public"), TableId("shop", "items", "public")
FINDINGS = json.loads(Path(r"{findings}").read_text())


class Config(PluginConfig):
    path: str = "x"
    password: Secret | None = None


class Place(Offset):
    def fields(self): return dict()
    @classmethod
    def from_fields(cls, fields): return cls()
    def __lt__(self, other): return False
    def __eq__(self, other): return True
    def __hash__(self): return 0
    def __str__(self): return "0"


class Assessor(TableAssessor):
    def __init__(self, side): self.side = side
    def found(self, place, table=None):
        return tuple(
            Finding(f["name"], Severity[f["severity"]], "what", "impact", "do this", f.get("fix", ""), table,
                    f.get("column", ""))
            for f in FINDINGS if f["at"] == self.side + place
        )
    def assess(self): return Assessment(self.found(""))
    def assess_table(self, schema):
        if self.side == "source":
            columns = [ColumnAssessment(c.name, c.source_type, str(c.type)) for c in schema.columns]
        else:
            columns = [ColumnAssessment(c.name, str(c.type), "BIGINT" if c.name == "id" else "TEXT",
                                        Support.YES if c.name == "id" else Support.PARTIAL, "cut") for c in schema.columns]
        return TableAssessment(schema.table, tuple(columns), self.found("." + schema.table.table, schema.table))


class Registry(TableRegistry):
    def list_tables(self):
        if any(f["at"] == "down" for f in FINDINGS):
            raise RetryableError("the server is away", code="TST-0001", hint="start it")
        return [TableSummary(ITEMS, 2, 10, 100), TableSummary(ORDERS, 2)]
    def describe_table(self, table):
        if any(f["at"] == "locked" for f in FINDINGS) and table == ITEMS:
            raise NeedsUserError("it may not be read", code="TST-0002", hint="GRANT SELECT", table=str(table))
        return TableSchema(table, (Column("id", INT64, False, "bigint"), Column("note", STRING, True, "text")), ("id",))


class Judged(DeltaSource):
    name = "judged"
    config_type = Config
    offset_type = Place
    def identity(self): return "judged"
    def latest_offset(self): return Place()
    def create_table_registry(self): return Registry()
    def create_table_assessor(self): return Assessor("source")
    def create_reader(self, definition, context, emitter): raise NotImplementedError


class Judging(DeltaTarget):
    name = "judging"
    config_type = Config
    def create_table_assessor(self): return Assessor("target")
    def create_consumer(self, context): raise NotImplementedError


@hookimpl
def delta_sources(): return [Judged]


@hookimpl
def delta_targets(): return [Judging]
"""


@pytest.fixture
def replicator() -> Replicator:
    from replicator_runtime.cli.app import app

    runner = CliRunner()
    return lambda *arguments: runner.invoke(app, [str(a) for a in arguments])


@pytest.fixture
def judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Makes a pipeline whose two ends have the findings given; `at` says where: `source`, `target.orders`, `down`."""

    def make(*findings: dict[str, Any], **more: Any) -> Path:
        number = next(_numbers)
        site = tmp_path / f"site-{number}"
        site.mkdir()
        (site / "findings.json").write_text(json.dumps(findings), "utf-8")
        monkeypatch.syspath_prepend(str(site))
        install(site, f"judged-{number}", JUDGED.replace("{findings}", str(site / "findings.json")))
        document = {
            "name": "judged",
            "offsetBasePath": str(tmp_path / "state"),
            "stages": [
                {"name": "in", "plugin": {"name": "judged", "type": "cdcSource"}},
                {"name": "out", "plugin": {"name": "judging", "type": "cdcTarget"}},
            ],
            "connections": [{"from": "in", "to": "out"}],
            **more,
        }
        file = tmp_path / "pipeline.json"
        file.write_text(json.dumps(document), "utf-8")
        return file

    return make


@pytest.fixture
def sqlite_pipeline(tmp_path: Path) -> Path:
    """A pipeline from a small SQLite database."""
    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop:
        shop.executescript(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, total DECIMAL(8,2));"
            "CREATE TABLE old_orders (id INTEGER PRIMARY KEY);"
            'CREATE TABLE "\x1b[31mred" (x TEXT);'
        )
    document = {
        "name": "shop",
        "offsetBasePath": str(tmp_path / "state"),
        "stages": [
            {
                "name": "in",
                "plugin": {"name": "sqlite", "type": "cdcSource", "properties": {"path": str(tmp_path / "shop.db")}},
            },
            {
                "name": "out",
                "plugin": {"name": "delta", "type": "cdcTarget", "properties": {"path": str(tmp_path / "lake")}},
            },
        ],
        "connections": [{"from": "in", "to": "out"}],
        "tables": [{"table": "orders"}],
    }
    file = tmp_path / "pipeline.json"
    file.write_text(json.dumps(document), "utf-8")
    return file
