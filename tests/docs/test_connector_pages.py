"""The pages of sources and targets have one template, and each smallest pipeline is valid."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from replicator_runtime.config import build_pipeline
from replicator_sdk.datatype import parse_type
from replicator_target_delta.schema.types import spark_type

_ROOT = Path(__file__).parents[2]
_PAGES = sorted([*(_ROOT / "docs").glob("source-*.md"), *(_ROOT / "docs").glob("target-*.md")])
_HEADINGS = [
    "Versions",
    "Set up",
    "Smallest pipeline",
    "Settings",
    "Types",
    "Changes of structure",
    "Failover and restore",
    "Limits",
    "Metrics and monitoring",
    "How it is tested",
]
_README_LINES = 40

each_page = pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.stem)


def section(page: Path, heading: str) -> str:
    return page.read_text("utf-8").split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]


def test_every_plugin_has_a_page() -> None:
    folders = [path for path in (_ROOT / "plugins").glob("*/replicator_*") if path.is_dir()]
    names = {path.name.removeprefix("replicator_").replace("_", "-") for path in folders}
    assert {page.stem for page in _PAGES} == names


@each_page
def test_headings_are_those_of_the_template(page: Path) -> None:
    first = "What it reads" if page.stem.startswith("source-") else "What it writes"
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == [first, *_HEADINGS]


@each_page
def test_the_smallest_pipeline_is_valid(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPLICATOR_SECRET_SHOP_PASSWORD", "not a real one")
    (tmp_path / "key.json").write_text("{}")
    text = section(page, "Smallest pipeline").replace("/run/secrets/", f"{tmp_path}/")
    [document] = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL)]
    pipeline = build_pipeline(document)
    kind, name = page.stem.split("-")
    assert getattr(pipeline, kind).name == name


@each_page
def test_settings_link_to_the_generated_reference(page: Path) -> None:
    assert f"](configuration.md#{page.stem})" in section(page, "Settings")


@each_page
def test_limits_link_to_the_error_codes(page: Path) -> None:
    assert f"](errors/{page.stem}.md)" in section(page, "Limits")


@each_page
def test_metrics_on_the_page_exist_and_none_is_missing(page: Path) -> None:
    """Of the plugin's own metrics; `dml.*` are the engine's."""
    package = _ROOT / "plugins" / f"{page.stem.split('-')[0]}s" / f"replicator_{page.stem.replace('-', '_')}"
    code = "".join(path.read_text("utf-8") for path in package.rglob("*.py"))
    reported = {name for call in re.findall(r"metrics\.(?:count|gauge)\((.*)", code) for name in _names(call)}
    assert _names(section(page, "Metrics and monitoring")) - {"maintenance.done"} - _ENGINE == reported - _ENGINE


_ENGINE = {"dml.insert", "dml.update", "dml.delete", "dml.missing"}


def _names(text: str) -> set[str]:
    return set(re.findall(r"[`\"]((?:source|values|dml|bigquery|delta|iceberg)\.[a-z_]+)[`\"]", text))


@pytest.mark.parametrize("readme", sorted((_ROOT / "plugins").glob("*/*/README.md")), ids=lambda path: path.parent.name)
def test_a_plugin_s_readme_is_short_and_links_to_its_page(readme: Path) -> None:
    text = readme.read_text("utf-8")
    assert f"docs/{readme.parent.name.removeprefix('replicator_').replace('_', '-')}.md)" in text
    assert len(text.splitlines()) <= _README_LINES


@each_page
def test_every_named_test_exists(page: Path) -> None:
    """Also those of a folder's part, `a/`, beside the folder before it."""
    cells = re.findall(r"^\| .* \| (.*) \|$", section(page, "How it is tested"), re.MULTILINE)[1:]
    paths = [path for cell in cells for path in re.findall(r"`(tests/[^`]+)`", cell)]
    assert paths
    assert [path for path in paths if not (_ROOT / path).exists()] == []


@each_page
def test_every_error_code_on_the_page_exists(page: Path) -> None:
    known = re.findall(r"\[(RPL-\d{4})\]", (_ROOT / "docs" / "errors.md").read_text("utf-8"))
    assert set(re.findall(r"RPL-\d{4}", page.read_text("utf-8"))) - set(known) == set()


def test_standard_types_are_stored_in_delta_as_the_page_says() -> None:
    rows = re.findall(
        r"^\| (`.*`).* \| ([a-z_, ()0-9]+?)(?:, `.*`)? \|$",
        section(_ROOT / "docs/target-delta.md", "Types"),
        re.MULTILINE,
    )
    pairs: dict[str, str] = {}
    for kinds, stored in rows:
        names, types = re.findall(r"`([^`]+)`", kinds), re.split(r", (?!\d)", stored)
        pairs |= dict(zip(names, types if len(types) == len(names) else types * len(names), strict=True))
    del pairs["array"], pairs["record"]  # types with parts
    assert len(pairs) >= 15
    assert {kind: spark_type(parse_type(kind)) for kind in pairs} == pairs
