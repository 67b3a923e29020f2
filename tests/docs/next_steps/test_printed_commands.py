"""A command that a text advises is printed as it can be copied: completed where it is read, and with names as a shell takes them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from replicator_runtime.observability import next_steps
from replicator_runtime.observability.next_steps import BY_FILE, BY_NAME, Subject, completed

ROOT = Path(__file__).parents[3]
FILES = sorted(
    path
    for folder in ("sdk", "state", "runtime", "plugins")
    for path in (ROOT / folder).rglob("*.py")
    if "testing" not in path.parts
)
SAFE = re.compile(r"^shlex\.(quote|join)\(|\.(plan_id|change_id)$")
"""What may be in a command: what is quoted, and the ids that this program makes of letters and digits."""
COMMAND = re.compile(r"`replicator [^`]*`?")
BARE = re.compile(
    rf"(?<!`)\breplicator (?:{'|'.join(sorted({name.split()[0] for name in BY_FILE | BY_NAME}))})\b[^`\n]*"
)
PRINTING = frozenset({"say", "_say", "echo", "print"})
OPEN, SHUT = "\x02", "\x03"


def rendered(node: ast.AST) -> str | None:
    """A text of the code, in which each value is its expression between two marks; None for what is no text."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        parts = (v.value if isinstance(v, ast.Constant) else f"{OPEN}{ast.unparse(v.value)}{SHUT}" for v in node.values)  # type: ignore[attr-defined]
        return "".join(map(str, parts))
    return None


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """All texts but docstrings, each with its line."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if (text := rendered(node)) is not None:
            yield getattr(node, "lineno", 0), text
        else:
            pending.extend(ast.iter_child_nodes(node))


def wrong_in(text: str) -> list[str]:
    """The commands in `text` that cannot be copied as they are printed."""
    values = re.compile(f"{OPEN}([^{SHUT}]*){SHUT}")
    found = [c for c in COMMAND.findall(text) if any(not SAFE.search(v) for v in values.findall(c))]
    found += [c for c in BARE.findall(text) if values.search(c)]
    found += [c for c in COMMAND.findall(text) if re.search(r"\{[a-z_.]+\}", c)]  # an f is missing before the text
    plain = [values.sub("x", command) for command in COMMAND.findall(text) if command.endswith("`")]
    return found + [c for c in plain if re.search(r"\b(NAME|PIPELINE|TABLE)\b(?!…)", completed(c, "public.orders"))]


def printed_as_it_is(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Texts with a command that are printed by a call that completes none."""
    for node in ast.walk(tree):
        name = getattr(getattr(node, "func", None), "attr", getattr(getattr(node, "func", None), "id", ""))
        if isinstance(node, ast.Call) and name in PRINTING:
            for argument in node.args:
                text = rendered(argument)
                if text is not None and COMMAND.search(text):
                    yield node.lineno, text


@pytest.fixture
def subject(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(next_steps, "_subject", Subject("orders.json"))


@pytest.mark.usefixtures("subject")
def test_commands_in_texts_are_completed_where_they_are_printed_and_names_in_them_are_quoted() -> None:
    found = []
    for path in FILES:
        tree = ast.parse(path.read_text("utf-8"))
        places = [(line, wrong) for line, text in texts(tree) for wrong in wrong_in(text)]
        places += printed_as_it_is(tree)
        found += [f"{path.relative_to(ROOT)}:{line}: {wrong}" for line, wrong in places if path.name != "next_steps.py"]
    assert found == []


@pytest.mark.usefixtures("subject")
@pytest.mark.parametrize(
    "code",
    [
        'f"`replicator resume {name}` lets it go on"',
        'f"`replicator table resync NAME {record.table} --in-place`"',
        'f"Next: replicator run {pipeline}"',
        '"`replicator resume {name}` lets it go on"',
        '"`replicator forget NAME` does it"',
    ],
)
def test_a_text_with_such_a_command_is_found(code: str) -> None:
    assert [wrong for _, text in texts(ast.parse(f"hint = {code}")) for wrong in wrong_in(text)]


@pytest.mark.usefixtures("subject")
def test_a_text_whose_command_can_be_copied_is_not_found() -> None:
    fine = 'f"`replicator ddl approve NAME {change.change_id}`, then `replicator table resync NAME TABLE --in-place`"'
    assert not [wrong for _, text in texts(ast.parse(f"hint = {fine}")) for wrong in wrong_in(text)]
    assert list(printed_as_it_is(ast.parse('say("see `replicator requests`")')))
