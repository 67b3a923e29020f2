"""The readers of the page read a table whose rows were changed and whose columns were renamed."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.services.artifacts import delta_jars
from tests.services.spark.session import INTERPRETER, JAVA_OPTIONS, SMALL

_PAGE = (Path(__file__).parents[2] / "docs" / "reading-tables.md").read_text("utf-8")
_SECTIONS = [section.partition("\n") for section in _PAGE.split("\n## ")[1:]]
_PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_BLOCKS = {heading: found[1] for heading, _, text in _SECTIONS if (found := _PYTHON.search(text))}
_PIPELINE = {
    "name": "shop",
    "offsetBasePath": "state",
    "stages": [
        {"name": "db", "plugin": {"name": "sqlite", "type": "cdcSource", "properties": {"path": "shop.db"}}},
        {"name": "lake", "plugin": {"name": "delta", "type": "cdcTarget", "properties": {"path": "lake"}}},
    ],
    "connections": [{"from": "db", "to": "lake"}],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the page's pipeline has run twice."""
    folder = tmp_path_factory.mktemp("shop")
    (folder / "pipeline.json").write_text(json.dumps(_PIPELINE))
    _sql(
        folder,
        "CREATE TABLE customers (id INTEGER PRIMARY KEY, label TEXT)",
        "INSERT INTO customers VALUES (1, 'Ada'), (2, 'Gräce'), (3, 'Linus')",
    )
    _run(folder, _REPLICATE)
    _sql(
        folder,
        "UPDATE customers SET label = 'Grace' WHERE id = 2",
        "DELETE FROM customers WHERE id = 3",
        "ALTER TABLE customers RENAME COLUMN label TO name",
        "INSERT INTO customers VALUES (4, 'Edsger')",
    )
    _run(folder, _REPLICATE)
    return folder


_REPLICATE = ("replicator", "run", "pipeline.json", "--until-current")


def _sql(folder: Path, *statements: str) -> None:
    with sqlite3.connect(folder / "shop.db") as database:
        for statement in statements:
            database.execute(statement)
    database.close()


def _run(folder: Path, command: tuple[str, ...], **variables: str) -> str:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, **INTERPRETER, **JAVA_OPTIONS, "PATH": path, **variables}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_every_reader_with_python_is_tried() -> None:
    assert list(_BLOCKS) == ["Spark", "DuckDB", "deltalake"]


@pytest.mark.parametrize("reader", list(_BLOCKS))
def test_a_reader_sees_the_newest_rows(folder: Path, reader: str) -> None:
    """Jars and extensions come from this machine, since the tests fetch nothing; Spark has the sizes of a small machine."""
    jars = ",".join(map(str, delta_jars()))
    program = re.sub(r'"spark.jars.packages", "[^"]+"', f'"spark.jars", "{jars}"', _BLOCKS[reader])
    local = "from duckdb_extensions import import_extension\nimport_extension('delta')\nduckdb.sql('LOAD delta')"
    program = program.replace('duckdb.sql("INSTALL delta; LOAD delta")', local)
    settings = {name: value for name, value in SMALL.items() if "Java" not in name and "memory" not in name}
    (folder / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    shown = _run(folder, (sys.executable, "-c", program), SPARK_CONF_DIR=str(folder))
    assert re.findall(r"Ada|Gr.ce|Linus|Edsger", shown) == ["Ada", "Grace", "Edsger"]
