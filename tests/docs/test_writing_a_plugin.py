"""The guide to writing a plugin ends with the kit passing, without Spark and without the runtime."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("name", ["test_diary.py", "test_shelf.py"])
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


def test_every_file_the_guide_links_to_is_there() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", GUIDE)
    assert [link for link in links if not (Path(__file__).parents[2] / "docs" / link).exists()] == []
