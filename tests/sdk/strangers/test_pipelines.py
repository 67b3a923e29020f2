"""Two packages of other authors, installed by pip, each in a pipeline with a built-in plugin."""

from __future__ import annotations

import ast
import json
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from replicator_sdk import Column, TableId, TableSchema
from replicator_sdk.datatype import INT64, STRING
from tests.architecture.test_sdk_face import private_imports, public_modules
from tests.end_to_end.comparison import delta_rows
from tests.end_to_end.replicator import Replicator
from tests.end_to_end.stranger import pip_install

HERE = Path(__file__).parent
PACKAGES = (HERE / "change_files", HERE / "sqlite_files")
ORDERS = TableSchema(TableId("files", "orders"), (Column("id", INT64), Column("what", STRING)), ("id",))
MORE = TableSchema(ORDERS.table, (Column("id", INT64), Column("text", STRING), Column("count", INT64)), ("id",))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process for which both packages are installed; they are built from copies."""
    folder = tmp_path_factory.mktemp("strangers")
    copies = [Path(shutil.copytree(package, folder / package.name)) for package in PACKAGES]
    return {"PYTHONPATH": str(pip_install(folder, *copies))}


def write(folder: Path, number: int, *lines: dict[str, Any]) -> None:
    """One file of changes."""
    folder.mkdir(exist_ok=True)
    (folder / "new").write_text("".join(json.dumps({"table": "orders", **line}) + "\n" for line in lines))
    (folder / "new").rename(folder / f"{number:08}.ndjson")


def test_they_import_nothing_that_is_not_public() -> None:
    modules = [path for package in PACKAGES for path in package.rglob("*.py")]
    modules += [HERE / "test_change_files.py", HERE / "test_sqlite_files.py"]
    trees = {path: ast.parse(path.read_text("utf-8")) for path in modules}
    assert len(trees) > 8
    public = public_modules()
    assert {path: found for path, tree in trees.items() if (found := private_imports(tree, public))} == {}
    texts = [path.read_text("utf-8") for path in modules]
    others = ("replicator_state", "replicator_runtime", "replicator_source_", "replicator_target_", "from tests")
    assert [text for text in texts if any(other in text for other in others)] == []


@pytest.mark.timeout(600)
def test_a_strangers_source_brings_its_rows_and_a_new_structure_to_delta(
    installed: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "changes"
    source = "change-files", {"folder": str(folder)}
    replicator = Replicator(tmp_path / "run", source, environment=installed)
    write(folder, 1, {"schema": ORDERS.to_json()})
    write(folder, 2, *({"op": "INSERT", "row": {"id": n, "what": f"w{n}"}} for n in range(5)))
    assert replicator.copied(replicator.until_current()) == ["files.orders"]
    write(folder, 3, {"op": "DELETE", "before": {"id": 4}}, {"op": "UPDATE", "row": {"id": 3, "what": None}})
    write(
        folder,
        4,
        {"op": "UPDATE", "row": {"id": 7, "what": "moved"}, "before": {"id": 1}},
        {"schema": MORE.to_json(), "renamed": {"text": "what"}, "defaults": {"count": 1}},
        {"op": "INSERT", "row": {"id": 8, "text": "new", "count": 2}},
    )
    assert replicator.copied(replicator.until_current()) == []
    found = Counter(delta_rows(replicator.lake / "files" / "orders", MORE.names))
    assert found == Counter([(0, "w0", 1), (2, "w2", 1), (3, None, 1), (7, "moved", 1), (8, "new", 2)])


def test_a_strangers_target_holds_what_a_sqlite_source_has(installed: dict[str, str], tmp_path: Path) -> None:
    shop, copy = tmp_path / "shop.db", tmp_path / "copy"
    target = "sqlite-files", {"folder": str(copy)}
    replicator = Replicator(tmp_path / "run", ("sqlite", {"path": str(shop)}), target, environment=installed)
    lives = (
        ("CREATE TABLE a (id INTEGER PRIMARY KEY, t TEXT)", "CREATE TABLE b (x REAL)", "INSERT INTO b VALUES (1), (1)"),
        (
            "INSERT INTO a VALUES (1, 'x'), (2, 'y')",
            "DELETE FROM b WHERE rowid = 1",
            "UPDATE a SET id = 3 WHERE id = 1",
        ),
        ("ALTER TABLE a ADD COLUMN n INT DEFAULT 7", "INSERT INTO b VALUES (NULL)"),
        ("UPDATE a SET n = 8 WHERE id = 2", "DELETE FROM a WHERE id = 3"),
    )
    for statements in lives:
        with closing(sqlite3.connect(shop)) as database, database:
            for statement in statements:
                database.execute(statement)
        replicator.until_current()
        for table in "ab":
            assert rows(copy / "main" / f"{table}.db", "rows_") == rows(shop, table)


def rows(path: Path, table: str) -> Counter[Any]:
    """The rows, without the columns the target adds."""
    with closing(sqlite3.connect(path)) as database:
        names = [name for _, name, *_ in database.execute(f"PRAGMA table_info({table})") if not name.startswith("_")]
        return Counter(database.execute(f"SELECT {', '.join(names)} FROM {table}").fetchall())
