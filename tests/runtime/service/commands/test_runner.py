"""Commands in processes of their own: what they are given, what they may print, and how they end."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from replicator_runtime.service.commands import process, runner
from replicator_runtime.service.commands.config_file import config_file
from replicator_runtime.service.commands.process import child_environment
from replicator_runtime.service.commands.runner import CommandRunner, command_line
from replicator_runtime.service.places import Places
from replicator_runtime.service.problems import ProblemError
from tests.runtime.service.services import settings_in

Program = Callable[[str], None]
FoundT = TypeVar("FoundT")
_EMPTY = json.dumps({"data": 1, "warnings": [], "error": None})


@pytest.fixture
def commands(tmp_path: Path) -> CommandRunner:
    """A runner."""
    settings = settings_in(tmp_path)
    settings.work_folder.mkdir()
    return CommandRunner(settings)


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Program:
    """Has the runner start a Python program instead of the command line."""

    def instead(text: str) -> None:
        def line(words: Sequence[str]) -> list[str]:
            return [sys.executable, "-c", text, *words]

        monkeypatch.setattr(runner, "command_line", line)

    return instead


def test_a_text_of_a_user_is_never_an_option(commands: CommandRunner) -> None:
    assert command_line(["tables", "--columns", "--", "p.json", "--debug"])[-5:] == [
        "--columns",
        "--json",
        "--",
        "p.json",
        "--debug",
    ]
    found = commands.run(["validate", "--", "--help"])
    assert found.exit_code == 3
    assert found.error is not None
    assert found.error["code"] == "RPL-1001"


@pytest.mark.parametrize("word", ["a\0b", "\ud800"])
def test_a_word_that_no_process_can_be_given_is_refused(commands: CommandRunner, word: str) -> None:
    with pytest.raises(ProblemError) as refused:
        commands.run(["tables", "--", word])
    assert refused.value.status == 422


def test_a_command_gets_the_environment_without_what_opens_the_service(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, store="postgresql://u:pw@h/d")
    given = {
        "REPLICATOR_SECRET_SHOP": "s",
        "HOME": "/h",
        "REPLICATOR_TOKEN": "t",
        "REPLICATOR_SERVER": "http://127.0.0.1:1",
        "MY_STORE": f"x={settings.store}",
    }
    found = child_environment(settings, given, "")
    assert found["REPLICATOR_SECRET_SHOP"] == "s"
    assert found["HOME"] == "/h"
    assert not {"REPLICATOR_TOKEN", "REPLICATOR_SERVER", "MY_STORE"} & found.keys()


def test_a_command_gets_no_password_of_the_store_and_keeps_what_only_contains_its_letters(tmp_path: Path) -> None:
    settings = replace(settings_in(tmp_path), store="postgresql://replicator:post%24gres@db/service")
    given = {"REPLICATOR_SECRET_SERVICE_DB": "post$gres", "PATH": "/opt/post$gres/bin", "HOME": "/h"}
    assert child_environment(settings, given, "").keys() >= {"PATH", "HOME"}
    given |= {"REPLICATOR_SERVICE_NAMESPACE": "another", "REPLICATOR_SERVICE_SHARED_SECRETS": "1"}
    found = child_environment(settings, given, "team")
    assert (found["REPLICATOR_SERVICE_NAMESPACE"], found["REPLICATOR_SERVICE_SHARED_SECRETS"]) == ("team", "")
    assert "REPLICATOR_SECRET_SERVICE_DB" not in child_environment(settings, given, "")


def test_a_module_in_the_work_folder_is_not_imported(commands: CommandRunner, tmp_path: Path, program: Program) -> None:
    (tmp_path / "work" / "planted.py").write_text("")
    program(f"import importlib.util; print({_EMPTY!r}) if importlib.util.find_spec('planted') is None else None")
    assert commands.run(["tables"]).data == 1


def test_a_command_that_prints_without_end_is_ended(
    commands: CommandRunner, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "MOST_PRINTED", 1_000_000)
    program("while True: print('x' * 10_000)")
    with pytest.raises(ProblemError) as refused:
        commands.run(["tables"])
    assert refused.value.code == "RPL-1503"


@pytest.mark.parametrize("printed", ["", "[1]", "{}", "Traceback", "[" * 100_000])
def test_a_command_without_a_result_is_a_fault(commands: CommandRunner, program: Program, printed: str) -> None:
    program(f"print({printed!r})")
    with pytest.raises(ProblemError) as refused:
        commands.run(["tables"])
    assert (refused.value.status, refused.value.code) == (500, "RPL-1503")


def test_a_command_that_takes_too_long_ends_with_all_its_processes(
    commands: CommandRunner, program: Program, tmp_path: Path
) -> None:
    program(_WITH_A_CHILD.format(path=str(tmp_path / "child"), then="time.sleep(600)"))
    with pytest.raises(ProblemError) as refused:
        commands.run(["tables"], timeout=5)
    assert refused.value.code == "RPL-1502"
    _wait_until_gone(int((tmp_path / "child").read_text()))


def test_what_a_command_leaves_running_ends_with_it(commands: CommandRunner, program: Program, tmp_path: Path) -> None:
    """Also where that keeps the pipe open."""
    program(_WITH_A_CHILD.format(path=str(tmp_path / "child"), then=f"print({_EMPTY!r})"))
    assert commands.run(["tables"]).data == 1
    _wait_until_gone(int((tmp_path / "child").read_text()))


def test_the_end_of_the_service_ends_commands_and_those_that_wait(
    commands: CommandRunner, program: Program, tmp_path: Path
) -> None:
    program(_WITH_A_CHILD.format(path=f"{tmp_path}/child-' + str(os.getpid()) + '", then="time.sleep(600)"))
    codes: list[str] = []

    def ask() -> None:
        try:
            commands.run(["tables"], timeout=120)
        except ProblemError as error:
            codes.append(error.code)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    children = _until(lambda: [path for path in tmp_path.glob("child-*") if path.read_text()], at_least=2)
    commands.close()
    for thread in threads:
        thread.join(30)
    assert codes == ["RPL-1508"] * 4
    for child in children:
        _wait_until_gone(int(child.read_text()))


def test_more_than_can_wait_are_refused_at_once(
    commands: CommandRunner, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    program("import time; time.sleep(600)")
    monkeypatch.setattr(commands, "_places", Places(1, 1))
    thread = threading.Thread(target=lambda: _ignored(commands))
    thread.start()
    _until(lambda: list(commands._running), at_least=1)
    with pytest.raises(ProblemError) as refused:
        commands.run(["tables"])
    assert (refused.value.status, refused.value.code) == (503, "RPL-1514")
    commands.close()
    thread.join(30)


def test_a_config_is_in_a_file_that_only_this_user_reads_and_that_goes_again(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    settings.work_folder.mkdir()
    left = settings.work_folder / "asked" / "left.json"
    left.parent.mkdir()
    left.write_text("{}")
    os.utime(left, (0, 0))
    with config_file(settings, {"a": "ü\ud800"}) as path:
        assert path.stat().st_mode & 0o777 == 0o600
        assert json.loads(path.read_text("ascii")) == {"a": "ü\ud800"}
        assert list(path.parent.iterdir()) == [path]
    assert list(path.parent.iterdir()) == []


_WITH_A_CHILD = (
    "import os, subprocess, sys, time\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    "open('{path}', 'w').write(str(child.pid))\n"
    "{then}\n"
)


def _ignored(commands: CommandRunner) -> None:
    with pytest.raises(ProblemError):
        commands.run(["tables"], timeout=120)


def _until(found: Callable[[], list[FoundT]], *, at_least: int) -> list[FoundT]:
    deadline = time.monotonic() + 60
    while len(now := found()) < at_least:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return now


def _wait_until_gone(process_id: int) -> None:
    """A killed process of which no one takes note any more may be shown as a zombie for a while."""
    deadline = time.monotonic() + 30
    while _is_alive(process_id):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _is_alive(process_id: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process_id}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
