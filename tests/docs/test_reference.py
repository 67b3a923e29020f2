"""The generated pages say what the code says, and every pipeline shown is a right one."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from replicator_runtime.config import InvalidPipelineError, build_pipeline
from replicator_sdk import errors

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.json"))


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    specification = importlib.util.spec_from_file_location("reference_docs", ROOT / "scripts" / "reference_docs.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["reference_docs"] = module  # dataclasses look their module up
    specification.loader.exec_module(module)
    return module


def test_settings_commands_and_errors_are_documented_as_they_are(reference: ModuleType) -> None:
    """Mended by `python scripts/reference_docs.py`."""
    assert [path.name for path in reference.outdated()] == []


def test_every_code_in_the_rooms_is_documented_and_no_other(reference: ModuleType) -> None:
    """Counted without the parser that writes the page."""
    used = {
        code
        for room in reference.ROOMS
        for file in (ROOT / room).rglob("*.py")
        for code in re.findall(r"\bRPL-\d{4}\b", file.read_text("utf-8"))
    }
    headings = re.findall(r"^### (RPL-\d{4})$", (ROOT / "docs" / "errors.md").read_text("utf-8"), re.MULTILINE)
    assert set(headings) == used
    assert len(headings) == len(set(headings))


def test_every_code_says_what_happened_what_to_do_and_how_it_ends(reference: ModuleType) -> None:
    known = {name for name, kind in vars(errors).items() if isinstance(kind, type)} | {"log", "finding"}
    for code, meaning in reference.error_codes().items():
        assert meaning.messages, f"{code} has no message that can be read from the code: add it to BY_HAND"
        assert meaning.hints, f"{code} has no next step: add it to BY_HAND"
        assert meaning.kinds & known, f"{code} is raised as {meaning.kinds}: add it to BY_HAND"


def test_no_code_has_two_meanings(reference: ModuleType) -> None:
    """Rooms that know each other may share one; others may not."""
    together = {"replicator_runtime", "replicator_runtime.engine"}
    shared = {code: m.rooms for code, m in reference.error_codes().items() if len(m.rooms) > 1}
    assert {code: rooms for code, rooms in shared.items() if not rooms <= together} == {}


def test_every_exit_code_is_in_the_table_of_the_command_line() -> None:
    table = re.findall(r"^\| (\d+) \|", (ROOT / "docs" / "cli.md").read_text("utf-8"), re.MULTILINE)
    raised = {k.exit_code for k in vars(errors).values() if isinstance(k, type) and hasattr(k, "exit_code")}
    assert {str(code) for code in raised | {0, 2}} == set(table)


def test_every_setting_and_command_has_a_meaning(reference: ModuleType) -> None:
    for part in (reference.pipeline_part(), reference.plugins_part()):
        rows = [line for line in part.splitlines() if line.startswith("| `")]
        assert rows
        assert [row for row in rows if re.search(r"\|\s*\|$", row)] == []


def build(document: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Build a pipeline; a secret that lies in a file elsewhere is not this machine's business."""
    monkeypatch.setenv("REPLICATOR_SECRET_SHOP_PASSWORD", "a-secret")
    try:
        build_pipeline(document)
    except InvalidPipelineError as error:
        assert {p.code for p in error.problems} == {"RPL-1004"}, error  # noqa: PT017
        assert all("/run/secrets/" in p.message for p in error.problems), error  # noqa: PT017


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda path: path.name)
def test_every_example_is_a_right_pipeline(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(json.loads(file.read_text("utf-8")), monkeypatch)


@pytest.mark.parametrize("page", ["configuration.md"])
def test_every_pipeline_in_a_page_is_a_right_one(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```json\n(.*?)```", (ROOT / "docs" / page).read_text("utf-8"), re.DOTALL)
    pipelines = [block for block in map(json.loads, blocks) if "stages" in block]
    assert pipelines
    for document in pipelines:
        build(document, monkeypatch)
