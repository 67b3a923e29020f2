"""The README's pipeline is valid, and the output it shows is what the demo prints."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from replicator_runtime.config import build_pipeline

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")


def test_the_pipeline_in_the_readme_is_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPLICATOR_SECRET_SHOP_DB", "not a real one")
    [document] = [json.loads(text) for text in re.findall(r"```json\n(.*?)```", README, re.DOTALL)]
    assert build_pipeline(document).source.name == "postgres"


def test_every_plugin_of_this_repository_is_in_the_readme() -> None:
    folders = (Path(__file__).parents[2] / "plugins").glob("*/replicator_*")
    names = [folder.name.rsplit("_", 1)[1] for folder in folders if folder.is_dir()]
    assert len(names) >= 6
    assert [name for name in names if f"[`{name}`](" not in README] == []
