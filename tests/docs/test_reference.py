"""The generated pages agree with the code, and every pipeline shown is valid."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from replicator_runtime.cli.report import ERROR_PAGE
from replicator_runtime.config import InvalidPipelineError, build_pipeline
from replicator_runtime.config.reference import describe_settings
from replicator_runtime.plugin_host import PluginHost
from replicator_sdk import errors

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.json"))


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "scripts"))
        return importlib.import_module("reference_pages.pages")


@pytest.fixture(scope="module")
def codes(pages: ModuleType) -> dict[str, Any]:
    """What the parser found: error code → meaning."""
    found = importlib.import_module("reference_pages.error_codes").error_codes()
    assert isinstance(found, dict)
    return found


def test_settings_commands_and_errors_agree_with_the_code(pages: ModuleType) -> None:
    """`python scripts/reference_docs.py` rewrites the pages."""
    assert [path.name for path in pages.outdated()] == []


def test_every_code_has_one_section_and_one_line_in_the_index() -> None:
    """Counted without the parser that writes the page."""
    used = {
        code
        for folder in ("sdk", "state", "runtime", "plugins")
        for file in (ROOT / folder).rglob("*.py")
        for code in re.findall(r"\bRPL-\d{4}\b", file.read_text("utf-8"))
    }
    index = (ROOT / "docs" / "errors.md").read_text("utf-8")
    areas = "".join(path.read_text("utf-8") for path in sorted((ROOT / "docs" / "errors").glob("*.md")))
    assert sorted(re.findall(r"^## (RPL-\d{4})$", areas, re.MULTILINE)) == sorted(used)
    assert sorted(re.findall(r"^\| .*\[(RPL-\d{4})\]", index, re.MULTILINE)) == sorted(used)


def test_the_link_that_an_error_prints_leads_to_its_line_in_the_index(codes: dict[str, Any]) -> None:
    anchors = re.findall(r'<a id="(rpl-\d{4})">', (ROOT / ERROR_PAGE).read_text("utf-8"))
    assert anchors == [code.lower() for code in codes]


def test_every_code_says_what_happened_what_to_do_and_how_it_ends(codes: dict[str, Any]) -> None:
    known = {name for name, kind in vars(errors).items() if isinstance(kind, type)} | {"log", "finding", "ProblemError"}
    for code, meaning in codes.items():
        assert meaning.messages, f"{code} has no message that can be read from the code: add it to BY_HAND"
        assert meaning.hints, f"{code} has no next step: add it to BY_HAND"
        assert meaning.kinds & known, f"{code} is raised as {meaning.kinds}: add it to BY_HAND"


def test_no_two_codes_of_a_page_describe_the_same(codes: dict[str, Any]) -> None:
    described: dict[tuple[str, ...], list[str]] = {}
    for code, meaning in codes.items():
        described.setdefault((meaning.messages[0], *sorted(meaning.packages)), []).append(code)
    assert [shared for shared in described.values() if len(shared) > 1] == []


def test_no_code_has_two_meanings(codes: dict[str, Any]) -> None:
    """The engine and the commands may share a code; other packages may not."""
    together = {"replicator_runtime", "replicator_runtime.engine"}
    shared = {code: m.packages for code, m in codes.items() if len(m.packages) > 1}
    assert {code: packages for code, packages in shared.items() if not packages <= together} == {}


def test_every_exit_code_is_in_the_table_of_the_command_line() -> None:
    table = re.findall(r"^\| (\d+) \|", (ROOT / "docs" / "cli.md").read_text("utf-8"), re.MULTILINE)
    raised = {k.exit_code for k in vars(errors).values() if isinstance(k, type) and hasattr(k, "exit_code")}
    assert {str(code) for code in raised | {0, 2}} == set(table)


def test_every_setting_and_command_has_a_meaning(pages: ModuleType) -> None:
    for part in (pages.pipeline_part(), pages.plugins_part()):
        rows = [line for line in part.splitlines() if line.startswith("| `")]
        assert rows
        assert [row for row in rows if re.search(r"\|\s*\|$", row)] == []


def test_settings_are_named_as_the_pipeline_writes_them() -> None:
    """Not as Python does: a key with an underscore is refused."""
    for plugin in PluginHost().listing().plugins:
        config = plugin.plugin.config_type
        names = {name for name in config.model_fields if "_" in name}
        for setting in describe_settings(config):
            named = set(re.findall(r"`([^`]*)`", setting.description))
            assert not named & names, setting
            assert not [name for name in named if re.search(r"\.[A-Z_]{3,}$", name)], setting


def build(document: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Build a pipeline; a secret in a file of another machine may be missing."""
    monkeypatch.setenv("REPLICATOR_SECRET_SHOP_PASSWORD", "a-secret")
    try:
        build_pipeline(document)
    except InvalidPipelineError as error:
        assert {p.code for p in error.problems} == {"RPL-1004"}, error  # noqa: PT017
        assert all("/run/secrets/" in p.message for p in error.problems), error  # noqa: PT017


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda path: path.name)
def test_every_example_is_a_valid_pipeline(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(json.loads(file.read_text("utf-8")), monkeypatch)


@pytest.mark.parametrize("page", ["configuration.md"])
def test_every_pipeline_in_a_page_is_valid(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```json\n(.*?)```", (ROOT / "docs" / page).read_text("utf-8"), re.DOTALL)
    pipelines = [block for block in map(json.loads, blocks) if "stages" in block]
    assert pipelines
    for document in pipelines:
        build(document, monkeypatch)
