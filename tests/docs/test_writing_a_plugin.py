"""The plugins of the guide replicate in a real pipeline, and pass the kit without Spark and without the runtime."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.worker import run
from replicator_runtime.plugin_host import PluginHost
from replicator_sdk import Column, TableId, TableSchema
from replicator_sdk.datatype import INT64, STRING

GUIDE = (Path(__file__).parents[2] / "docs" / "writing-a-plugin.md").read_text("utf-8")
BLOCKED = ("pyspark", "replicator_runtime", "replicator_state", "replicator_source_sqlite", "replicator_target_delta")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The guide's files in a folder where nothing but the SDK can be imported."""
    folder = tmp_path_factory.mktemp("guide")
    for text in re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL):
        name = text.split("\n", 1)[0].removeprefix("# ")
        (folder / name).write_text(text)
    (folder / "conftest.py").write_text(f"import sys\nsys.modules.update(dict.fromkeys({BLOCKED!r}))\n")
    (folder / "pytest.ini").write_text("[pytest]\n")
    return folder


@pytest.fixture
def host(package: Path, monkeypatch: pytest.MonkeyPatch) -> PluginHost:
    """Knows the guide's plugins, and no others."""
    names = ("ticks", "pages", "diary", "shelf")
    monkeypatch.syspath_prepend(package)
    assert all(Path(str(importlib.util.find_spec(name).origin)).parent == package for name in names)  # type: ignore[union-attr]
    return PluginHost(metadata.EntryPoint(name, name, "replicator.plugins") for name in names)


def _pipeline(folder: Path, source: tuple[str, Mapping[str, str]], target: tuple[str, Path]) -> dict[str, Any]:
    return {
        "name": "guide",
        "offsetBasePath": str(folder / "state"),
        "stages": [
            {"name": "in", "plugin": {"name": source[0], "type": "cdcSource", "properties": source[1]}},
            {
                "name": "out",
                "plugin": {"name": target[0], "type": "cdcTarget", "properties": {"folder": str(target[1])}},
            },
        ],
        "connections": [{"from": "in", "to": "out"}],
        "retries": {"maxDurationSeconds": 2, "delaySeconds": 0.1},
    }


def test_the_smallest_plugins_replicate_by_the_guides_pipeline_and_go_on_where_they_ended(
    tmp_path: Path, host: PluginHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    feed, pages = tmp_path / "feed.jsonl", tmp_path / "pages"
    pages.mkdir()
    [text] = re.findall(r"```json\n(.*?)```", GUIDE, re.DOTALL)
    document = json.loads(text)
    feed.write_text('{"id": 1, "price": 1.5}\n')
    assert run(build_pipeline(document, host=host), until_current=True).sequence_number == 1
    with feed.open("a") as file:
        file.write('{"id": 2, "price": 2.5}\n')
    assert run(build_pipeline(document, host=host), until_current=True).sequence_number == 2
    assert json.loads((pages / "feed.ticks.json").read_text()) == {
        "1": {"id": 1, "price": 1.5},
        "2": {"id": 2, "price": 2.5},
    }


def test_the_large_plugins_replicate_tables_with_and_without_a_key(tmp_path: Path, host: PluginHost) -> None:
    diary, shelf = tmp_path / "diary", tmp_path / "shelf"
    columns = (Column("id", INT64), Column("word", STRING))
    keyed = TableSchema(TableId("diary", "keyed"), columns, ("id",))
    keyless = TableSchema(TableId("diary", "keyless"), columns)
    diary.mkdir()
    (diary / "tables.json").write_text(json.dumps([keyed.to_json(), keyless.to_json()]))
    document = _pipeline(tmp_path, ("diary", {"folder": str(diary)}), ("shelf", shelf))
    one, two, other = {"id": 1, "word": "a"}, {"id": 2, "word": "b"}, {"id": 2, "word": "c"}
    runs: list[list[list[list[Any]]]] = [
        [[[t, "INSERT", row, None] for t in ("keyed", "keyless") for row in (one, two)]],
        [[["keyless", "DELETE", None, one]], [["keyed", "UPDATE", other, None], ["keyless", "UPDATE", other, two]]],
        [[["keyed", "DELETE", None, {"id": 1}], ["keyless", "INSERT", other, None]]],
    ]
    expected = [([one, two], [one, two]), ([one, other], [other]), ([other], [other, other])]
    for transactions, (with_key, without) in zip(runs, expected, strict=True):
        with (diary / "diary.jsonl").open("a") as file:
            file.writelines(json.dumps(transaction) + "\n" for transaction in transactions)
        run(build_pipeline(document, host=host), until_current=True)
        assert _shelf_rows(shelf / "diary.keyed.arrow") == with_key
        assert _shelf_rows(shelf / "diary.keyless.arrow") == without


def _shelf_rows(path: Path) -> list[dict[str, Any]]:
    with pa.ipc.open_file(path) as file:
        rows: list[dict[str, Any]] = file.read_all().to_pylist()
    return sorted(rows, key=str)


@pytest.mark.parametrize("name", ["test_pages.py", "test_diary.py", "test_shelf.py"])
def test_the_guides_plugin_passes_the_kit(package: Path, name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", name],
        cwd=package,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) > 70


def test_the_guides_project_file_names_modules_of_the_guide(package: Path) -> None:
    [text] = re.findall(r"```toml\n(.*?)```", GUIDE, re.DOTALL)
    project = tomllib.loads(text)["project"]
    modules = project["entry-points"]["replicator.plugins"].values()
    assert modules
    assert all((package / f"{module}.py").exists() for module in modules)
