"""The kit finds each planted fault in the test that the list names, and says which claim, which step and what differs."""

from __future__ import annotations

import importlib
import inspect
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.sdk.strangers.test_change_files import TestChangeFiles as ChangeFilesKit
from tests.sdk.strangers.test_change_files import Writer
from tests.sdk.strangers.test_sqlite_files import Folder
from tests.sdk.strangers.test_sqlite_files import TestSqliteFiles as SqliteFilesKit
from tests.sdk.testing.planted_faults import IN_CHANGE_FILES, IN_DIARY, IN_SQLITE_FILES, Fault

ROOT = Path(__file__).parents[3]
STRANGERS = ROOT / "tests" / "sdk" / "strangers"
PAGE = ROOT / "docs" / "conformance.md"
WAIT_SECONDS, STEP_SECONDS = 5.0, 3.0  # for what a fault never does
OF_ONE_HISTORY = {"test_what_is_there_is_what_the_history_makes", "test_what_the_reader_emits_is_what_happened"}


@contextmanager
def replaced(folder: Path, name: str) -> Iterator[ModuleType]:
    """The package or module `name` of `folder` in place of the one that is imported."""

    def own() -> dict[str, ModuleType]:
        return {key: module for key, module in sys.modules.items() if key.partition(".")[0] == name}

    before = own()
    for key in before:
        del sys.modules[key]
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield importlib.import_module(name)
    finally:
        sys.path.remove(str(folder))
        for key in own():
            del sys.modules[key]
        sys.modules.update(before)


def edit(path: Path, fault: Fault | None) -> None:
    """Plant the fault in the file."""
    if fault is not None:
        text = path.read_text("utf-8")
        assert fault.before in text, f"{path.name} has no {fault.before!r}"
        path.write_text(text.replace(fault.before, fault.after), "utf-8")


@contextmanager
def stranger(folder: Path, name: str, fault: Fault, *, planted: bool = True) -> Iterator[ModuleType]:
    """A copy in `folder` of a stranger's package, with the fault if it is `planted`, in place of the one that is imported."""
    shutil.copytree(STRANGERS / name / name, folder / name)
    edit(folder / name / f"{fault.module}.py", fault if planted else None)
    with replaced(folder, name) as package:
        yield package


def check(kit: Any, system: Any, fault: Fault, *, planted: bool) -> None:
    """Run the claim that finds the fault."""
    type(kit).wait_seconds, type(kit).step_seconds = (WAIT_SECONDS, STEP_SECONDS) if planted else (120.0, 120.0)
    getattr(kit, fault.claim)(system, **fault.arguments)


def check_sqlite_files(folder: Path, fault: Fault, *, planted: bool) -> None:
    """The claim, on the target."""
    with stranger(folder, "sqlite_files", fault, planted=planted) as package:
        system = Folder(folder)
        system.target = package.SqliteFilesTarget(package.SqliteFilesConfig(folder=folder / "tables"))
        system.folder = folder / "tables"
        system.folder.mkdir()
        check(type("Kit", (SqliteFilesKit,), {})(), system, fault, planted=planted)


def check_change_files(folder: Path, fault: Fault, *, planted: bool) -> None:
    """The claim, on the source that emits row by row."""
    with stranger(folder, "change_files", fault, planted=planted) as package:
        system = Writer(folder)
        system.source = package.ChangeFilesSource(package.ChangeFilesConfig(folder=folder))
        check(type("Kit", (ChangeFilesKit,), {})(), system, fault, planted=planted)


def check_diary(folder: Path, fault: Fault, *, planted: bool) -> None:
    """The claim, on the guide's source."""
    guide = (ROOT / "docs" / "writing-a-plugin.md").read_text("utf-8")
    for name in ("diary.py", "test_diary.py"):
        [text] = re.findall(rf"```python\n(# {name}\n.*?)```", guide, re.DOTALL)
        (folder / name).write_text(text, "utf-8")
    edit(folder / "diary.py", fault if planted else None)
    with replaced(folder, "diary"), replaced(folder, "test_diary") as tests:
        (folder / "diary").mkdir()
        check(tests.TestDiary(), tests.Author(folder / "diary"), fault, planted=planted)


def assert_explained(error: BaseException) -> dict[str, str]:
    """The error's notes, which name the claim, the step and the comparison."""
    notes = dict(note.split(": ", 1) for note in getattr(error, "__notes__", ()))
    assert all(notes.get(key, "").strip() for key in ("claim", "step", "comparison")), repr(error)
    return notes


CHECKS = {"sqlite_files": check_sqlite_files, "change_files": check_change_files, "diary": check_diary}
FAULTS: dict[str, Sequence[Fault]] = {
    "sqlite_files": IN_SQLITE_FILES,
    "change_files": IN_CHANGE_FILES,
    "diary": IN_DIARY,
}
ALL = [pytest.param(plugin, fault, id=f"{plugin}: {fault}") for plugin, faults in FAULTS.items() for fault in faults]


@pytest.mark.parametrize(("plugin", "fault"), ALL)
def test_a_planted_fault_is_found(tmp_path: Path, plugin: str, fault: Fault) -> None:
    with pytest.raises(BaseException) as caught:  # noqa: PT011 - which error it is, the notes say
        CHECKS[plugin](tmp_path, fault, planted=True)
    notes = assert_explained(caught.value)
    assert ("smallest history" in notes) == (fault.claim in OF_ONE_HISTORY)


CLAIMS = {(plugin, fault.claim, str(fault.arguments)): fault for plugin, faults in FAULTS.items() for fault in faults}


@pytest.mark.parametrize(
    ("plugin", "fault"), [pytest.param(key[0], fault, id=f"{key[0]}: {key[1]}") for key, fault in CLAIMS.items()]
)
def test_the_same_claims_hold_for_the_plugin_as_it_is(tmp_path: Path, plugin: str, fault: Fault) -> None:
    CHECKS[plugin](tmp_path, fault, planted=False)


def test_the_page_lists_every_fault_with_the_claim_that_finds_it() -> None:
    rows = re.findall(r"^\| (.+) \| `(\w+)` \| `(\w+)` \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert rows == [(fault.name, plugin, fault.claim) for plugin, faults in FAULTS.items() for fault in faults]


def test_every_fault_is_another_one() -> None:
    names = [(plugin, fault.name) for plugin, faults in FAULTS.items() for fault in faults]
    assert len(set(names)) == len(names) >= 30
    assert inspect.isfunction(check_diary)
