"""Reads, without running them, which tests follow the next step of which error, and whether they can."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[3]
_CODE = re.compile(r"RPL-\d{4}")
_WORDS = re.compile(r"(?:--)?[a-z]+(?:-[a-z]+)*(?:[ .][a-z]+(?:-[a-z]+)*)*")


@dataclass
class Content:
    """What a test holds, with the functions of tests that it calls.

    Attributes:
        codes: Error codes in its texts.
        words: Words that it gives to a command line, and names of what it calls.
    """

    codes: set[str] = field(default_factory=set)
    words: set[str] = field(default_factory=set)

    def does(self, command: str) -> bool:
        """Whether all words of a command, such as `table resync`, are there."""
        return set(command.split()) <= self.words


@dataclass(frozen=True)
class Marked:
    """A test with the mark.

    Attributes:
        place: File and name.
        codes: Those that the mark names.
        content: What it holds beside the mark.
    """

    place: str
    codes: tuple[str, ...]
    content: Content


def marked_tests() -> list[Marked]:
    """Every test with the mark `follows`."""
    return [
        Marked(f"{path.relative_to(ROOT)}::{function.name}", tuple(codes), content(path, function.name))
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if "follows(" in path.read_text("utf-8")
        for function in _functions(path).values()
        if (codes := [code for mark in _marks(function) for code in _texts(mark)])
    ]


def content(path: Path, name: str) -> Content:
    """What a function of a file of tests holds, with all that it calls there and in other files of tests."""
    found = Content()
    todo, seen = [(path, name)], set[tuple[Path, str]]()
    while todo:
        place = todo.pop()
        if place in seen:
            continue
        seen.add(place)
        node = _named(place[0]).get(place[1])
        if node is None:
            if imported := _imports(place[0]).get(place[1]):
                todo.append(imported)
            continue
        left_out = {id(part) for mark in _marks(node) for part in ast.walk(mark)} | _docstrings(node)
        for part in ast.walk(node):
            if id(part) not in left_out:
                _read(part, found)
            if isinstance(part, ast.Name):
                todo.append((place[0], part.id))
    return found


def _read(part: ast.AST, found: Content) -> None:
    if isinstance(part, ast.Constant) and isinstance(part.value, str):
        found.codes.update(_CODE.findall(part.value))
        if _WORDS.fullmatch(part.value.rstrip(".")):  # of an f-string: `table.`
            found.words.update(re.split("[ .]", part.value.rstrip(".")))
    if isinstance(part, ast.Call):
        called = part.func.attr if isinstance(part.func, ast.Attribute) else getattr(part.func, "id", "")
        found.words.update(
            called.replace("_", "-").split("-") if called == "until_current" else [called.replace("_", "-")]
        )


def _marks(node: ast.AST) -> Iterator[ast.Call]:
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == "follows":
            yield part


def _texts(call: ast.Call) -> list[str]:
    return [part.value for part in ast.walk(call) if isinstance(part, ast.Constant) and isinstance(part.value, str)]


def _docstrings(node: ast.AST) -> set[int]:
    return {
        id(part.value)
        for part in ast.walk(node)
        if isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant) and isinstance(part.value.value, str)
    }


@functools.cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def _functions(path: Path) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in _tree(path).body if isinstance(node, ast.FunctionDef)}


@functools.cache
def _named(path: Path) -> dict[str, ast.AST]:
    """The functions and constants of a file."""
    constants = {
        target.id: node
        for node in _tree(path).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return {**_functions(path), **constants}


@functools.cache
def _imports(path: Path) -> dict[str, tuple[Path, str]]:
    """What a file has from other files of tests: name → file and name there."""
    return {
        alias.asname or alias.name: (file, alias.name)
        for node in _tree(path).body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests.")
        for alias in node.names
        if (file := ROOT / ((node.module or "").replace(".", "/") + ".py")).is_file()
    }
