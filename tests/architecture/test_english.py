"""Texts use plain English: none of the words that CONTRIBUTING.md replaces.

Read are pages, and of Python files comments, strings (docstrings, messages) and names that are defined there.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.packages import ROOT

_FOLDERS = ("sdk", "state", "runtime", "plugins", "tests", "bench", "scripts", "docs")
_PAGES = (ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"))
# Each word, and what is written instead.
_WORDS = {
    "told": "reported, emitted",
    "tells": "reports, returns",
    "tell": "report, return",
    "behind": "after; of a delay: late, lag",
    "somebody": "another process, the caller",
    "nobody": "no one, no other process",
    "anew": "again, from scratch",
    "mend": "fix",
    "mends": "fixes",
    "mended": "fixed",
    "mending": "fixing",
    "door": "interface, entry point",
    "doors": "interfaces",
    "stands": "is, is stored, has stopped",
    "stand": "be, be stored",
    "becomes of": "happens to",
    "rooms": "packages, folders",
    "house": "project, maintenance",
    "housekeeping": "maintenance",
    "hands": "passes, executors, processes",
    "lies": "is stored, is",
    "lie": "are stored, are",
}
_WORD = re.compile(rf"(?<![A-Za-z])(?:{'|'.join(_WORDS)})(?![A-Za-z])", re.IGNORECASE)

# File → words that are technical there: names in stored state, accounts of the system, English in test data.
_TECHNICAL = {
    "plugins/sources/replicator_source_postgres/schema/emitted_changes.py": {"told"},  # a key in saved state
    "tests/plugins/sources/postgres/streaming/test_log_position.py": {"told"},
    "tests/services/processes.py": {"nobody"},  # an account of Unix
    "tests/architecture/test_english.py": set(_WORDS),
}


def texts(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each comment, string and defined name of a module."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING) or tokenize.tok_name[token.type] == "FSTRING_MIDDLE":
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, _separate(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, _separate(node.id)
        elif isinstance(node, ast.arg):
            yield node.lineno, _separate(node.arg)


def _separate(name: str) -> str:
    """The words of an identifier."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", name)


def found(path: Path) -> list[str]:
    """The words in a file that have a plainer one, with their lines."""
    name, text = path.relative_to(ROOT).as_posix(), path.read_text("utf-8")
    if not _WORD.search(_separate(text)):
        return []
    parts = texts(text) if path.suffix == ".py" else enumerate(text.splitlines(), 1)
    return [
        f"{name}:{first + part[: match.start()].count(chr(10))} {word}: write {_WORDS[word]}"
        for first, part in parts
        for match in _WORD.finditer(part)
        if (word := match.group().lower()) not in _TECHNICAL.get(name, set())
    ]


def _files() -> list[Path]:
    paths = (path for folder in _FOLDERS for kind in ("*.py", "*.md") for path in (ROOT / folder).rglob(kind))
    return sorted([*paths, *_PAGES])


def test_texts_use_plain_words() -> None:
    assert [line for path in _files() for line in found(path)] == []


@pytest.mark.parametrize(
    "text",
    [
        "# said anew",
        '"""A door."""',
        "def test_nobody_knows(): ...",
        "told = 1",
        "def f(house): ...",
        "class DoorKeeper: ...",
    ],
)
def test_comments_strings_and_names_are_read(text: str) -> None:
    assert any(_WORD.search(part) for _, part in texts(text))


@pytest.mark.parametrize("text", ["# a warehouse", "def indoors(): ...", "# shorthands", "file.tell()", "x = y.behind"])
def test_parts_of_words_and_names_of_others_are_allowed(text: str) -> None:
    assert not any(_WORD.search(part) for _, part in texts(text))
