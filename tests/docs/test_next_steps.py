"""What an error advises exists: each command with its options, and each setting."""

from __future__ import annotations

import functools
import importlib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer.main

from replicator_runtime.cli.app import app

ROOT = Path(__file__).parents[2]
_COMMAND = re.compile(r"`replicator ([^`]+)`")
_SETTING = re.compile(r"\b[a-z]+(?:[A-Z][a-z]*)+\b")
_OTHERS = frozenset({"gRPC", "dataEditor"})
"""Words of other systems that look like our settings."""


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "scripts"))
        return importlib.import_module("reference_pages.pages")


@pytest.fixture(scope="module")
def hints(pages: ModuleType) -> dict[str, list[str]]:
    """The next steps by error code."""
    codes = importlib.import_module(f"{pages.__package__}.error_codes").error_codes()
    return {code: list(meaning.hints) for code, meaning in codes.items()}


def commands(text: str) -> Iterator[list[str]]:
    """The words of each command in a text, after `replicator`."""
    for found in _COMMAND.findall(text):
        yield shlex.split(found.replace("…", ""), comments=True)


@functools.cache
def _program() -> Any:
    """The whole command line, which takes a second to make."""
    return typer.main.get_command(app)


def unknown_part(words: list[str]) -> str:
    """The first word of a command that the program does not know; empty when it knows all."""
    command = _program()
    words = list(words)
    while hasattr(command, "commands") and words:
        if words[0].startswith("-"):
            break
        name = words.pop(0)
        command = command.commands.get(name)
        if command is None:
            return name
    options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    options |= {"--help", "-h"}
    return next((w for w in words if w.startswith("-") and w.partition("=")[0] not in options), "")


def test_every_command_that_an_error_advises_exists(hints: dict[str, list[str]]) -> None:
    wrong = {
        code: words
        for code, texts in hints.items()
        for text in texts
        for words in commands(text)
        if unknown_part(words)
    }
    assert wrong == {}
    assert sum(1 for texts in hints.values() for text in texts for _ in commands(text)) > 30


@pytest.mark.parametrize(
    "page", sorted(p.relative_to(ROOT).as_posix() for p in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
)
def test_every_command_that_a_page_names_exists(page: str) -> None:
    if page == "CHANGELOG.md":
        return
    assert [words for words in commands((ROOT / page).read_text("utf-8")) if unknown_part(words)] == []


def test_a_command_that_does_not_exist_is_seen() -> None:
    assert unknown_part(["tabel", "resync"]) == "tabel"
    assert unknown_part(["table", "resink"]) == "resink"
    assert unknown_part(["table", "resync", "NAME", "TABLE", "--inplace"]) == "--inplace"
    assert unknown_part(["table", "resync", "NAME", "TABLE", "--in-place"]) == ""


def test_every_setting_that_an_error_advises_exists(hints: dict[str, list[str]], pages: ModuleType) -> None:
    known = set(re.findall(r"\w+", pages.pipeline_part() + pages.plugins_part()))
    wrong = {
        code: unknown
        for code, texts in hints.items()
        if (unknown := {word for text in texts for word in _SETTING.findall(text)} - known - _OTHERS)
    }
    assert wrong == {}
