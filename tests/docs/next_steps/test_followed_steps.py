"""The commands that errors advise are tried: each by a test that provokes the error."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from replicator_runtime.cli.app import app
from replicator_runtime.observability.next_steps import BY_FILE, BY_NAME
from tests.docs.next_steps.followed_steps import Marked, content, marked_tests

ROOT = Path(__file__).parents[3]
_COMMAND = re.compile(r"`replicator ([^`]+)`")


@pytest.fixture(scope="module")
def advised() -> dict[str, set[str]]:
    """The commands that the next steps of each error name, without arguments; only errors that name one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "scripts"))
        codes = importlib.import_module("reference_pages.error_codes").error_codes()
    found = {
        code: {_name(command) for hint in meaning.hints for command in _COMMAND.findall(hint)}
        for code, meaning in codes.items()
    }
    return {code: commands for code, commands in found.items() if commands}


def _name(command: str) -> str:
    words = command.split()
    return next((n for n in (" ".join(words[:2]), words[0]) if n in BY_FILE | BY_NAME), words[0])


def test_each_error_that_advises_a_command_is_followed_by_a_test(advised: dict[str, set[str]]) -> None:
    followed = {code for test in marked_tests() for code in test.codes}
    assert advised.keys() - followed == set(), "write a test with the mark `follows`"


@pytest.mark.parametrize("test", marked_tests(), ids=lambda test: test.place)
def test_a_marked_test_names_the_error_and_does_what_it_advises(test: Marked, advised: dict[str, set[str]]) -> None:
    for code in test.codes:
        assert code in test.content.codes, f"{code} is in the mark only"
        commands = advised.get(code, set())
        assert not commands or any(test.content.does(command) for command in commands), (code, commands)


def test_what_a_test_does_is_read_with_its_helpers_and_without_its_mark_and_docstring(tmp_path: Path) -> None:
    file = tmp_path / "test_x.py"
    file.write_text(
        "LOST = 'RPL-0001'\n"
        "def ask(shop):\n"
        "    shop.alone('table.resync', 'orders')\n"
        "@follows('RPL-0002')\n"
        "def test_x(shop):\n"
        "    'RPL-0003 is healed by heal'\n"
        "    assert shop.error == LOST\n"
        "    ask(shop)\n"
        "    reset(shop)\n"
    )
    found = content(file, "test_x")
    assert found.codes == {"RPL-0001"}
    assert [c for c in ("table resync", "table retry", "reset", "heal") if found.does(c)] == ["table resync", "reset"]


def test_the_commands_that_can_be_completed_are_those_of_the_command_line() -> None:
    by_file, any_kind = set(), set()
    for name, metavar in _arguments(typer.main.get_command(app), ""):
        any_kind.add(name)
        by_file |= {name} if metavar == "PIPELINE" else set()
    assert any_kind == BY_FILE | BY_NAME
    assert set() == BY_FILE & BY_NAME
    assert BY_FILE - by_file == {"verify", "explain-row"}, "these take a name, and refuse it"


def _arguments(command: Any, name: str) -> Iterator[tuple[str, str]]:
    """Each command that is about a pipeline, and how that argument is called."""
    for sub, inner in getattr(command, "commands", {}).items():
        yield from _arguments(inner, f"{name} {sub}".strip())
    for parameter in command.params:
        if parameter.metavar in {"PIPELINE", "NAME"} and parameter.required:
            yield name, parameter.metavar
