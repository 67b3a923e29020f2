"""The README's pipeline is valid, and its source and target replicate."""

from __future__ import annotations

import importlib.util
import json
import re
from importlib import metadata
from pathlib import Path

import pytest

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine import run
from replicator_runtime.plugins import PluginHost

README = (Path(__file__).parents[2] / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_pipeline_in_the_readme_is_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPLICATOR_SECRET_SHOP_DB", "not a real one")
    [document] = [json.loads(text) for text in blocks("json")]
    assert build_pipeline(document).source.name == "postgres"


def test_the_source_and_the_target_in_the_readme_replicate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run twice, with a change between: the second run goes on where the first ended."""
    names = [_write(tmp_path, text) for text in blocks("python")]
    monkeypatch.syspath_prepend(tmp_path)
    host = PluginHost(metadata.EntryPoint(name, name, "replicator.plugins") for name in names)
    feed, pages = tmp_path / "feed.jsonl", tmp_path / "pages"
    pages.mkdir()
    document = {
        "name": "readme",
        "offsetBasePath": str(tmp_path / "state"),
        "stages": [
            {"name": "in", "plugin": {"name": "ticks", "type": "cdcSource", "properties": {"path": str(feed)}}},
            {"name": "out", "plugin": {"name": "pages", "type": "cdcTarget", "properties": {"folder": str(pages)}}},
        ],
        "connections": [{"from": "in", "to": "out"}],
        "retries": {"maxDurationSeconds": 2, "delaySeconds": 0.1},
    }
    feed.write_text('{"id": 1, "price": 1.5}\n')
    assert run(build_pipeline(document, host=host), until_current=True).sequence_number == 1
    with feed.open("a") as file:
        file.write('{"id": 2, "price": 2.5}\n')
    assert run(build_pipeline(document, host=host), until_current=True).sequence_number == 2
    assert json.loads((pages / "ticks.json").read_text()) == {
        "1": {"id": 1, "price": 1.5},
        "2": {"id": 2, "price": 2.5},
    }


def _write(folder: Path, text: str) -> str:
    name = text.split("\n", 1)[0].removeprefix("# ").removesuffix(".py")
    (folder / f"{name}.py").write_text(text)
    assert importlib.util.find_spec(name) is None, "the module is the README's, not an installed one"
    return name


def test_every_file_the_readme_links_to_is_there() -> None:
    root = Path(__file__).parents[2]
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert links
    assert [link for link in links if not link.startswith("http") and not (root / link).exists()] == []
