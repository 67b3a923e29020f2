"""Reads from the code base what each error code means: its class, its messages and its next steps."""

from __future__ import annotations

import ast
import functools
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reference_pages.described_codes import BY_HAND, CAUSES

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("sdk", "state", "runtime", "plugins")
CODE = re.compile(r"RPL-\d{4}")

# Names of hints that several modules import.
_SHARED_HINTS = {
    "ALONE",
    "COPY_AGAIN",
    "HEAL",
    "COPY_TABLE_AGAIN",
    "DROP_SLOT",
    "FROM_NEW_SNAPSHOT",
    "NEW_SNAPSHOT",
    "OWN_PIPELINE",
    "REFILL",
    "REFILL_TABLE",
    "SUPERSEDED_HINT",
}


@dataclass
class Meaning:
    """The meaning of one error code, according to the code base.

    Attributes:
        kinds: Names of the classes it is raised as.
        messages: Its messages, with `…` for values known at run time.
        hints: The next steps.
        packages: The packages that use it; the engine counts as one.
    """

    kinds: set[str] = field(default_factory=set)
    messages: list[str] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)
    packages: set[str] = field(default_factory=set)


@functools.cache
def error_codes() -> dict[str, Meaning]:
    """Every code that the packages use, in ascending order."""
    found: dict[str, Meaning] = defaultdict(Meaning)
    trees, named = _parsed()
    shared = {
        (_module(path), target.id): node.value
        for path, tree in trees.items()
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id in _SHARED_HINTS
    }
    for path, tree in trees.items():
        package = _package(path)
        constants = {
            target.id: node.value
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        constants |= {
            alias.name: shared[node.module or "", alias.name]
            for node in tree.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
            if (node.module or "", alias.name) in shared
        }
        for literal in ast.walk(tree):
            if isinstance(literal, ast.Constant) and isinstance(literal.value, str) and CODE.fullmatch(literal.value):
                found[literal.value].packages.add(package)
        for function in _functions(tree):
            _read_function(function, constants, named, found)
    for code, (kind, message, hint) in BY_HAND.items():
        found[code].kinds, found[code].messages, found[code].hints = {kind}, [message], [hint]
    for code, cause in CAUSES.items():
        found[code].messages.insert(0, cause)
    for meaning in found.values():
        _fill(meaning)
    return dict(sorted(found.items()))


def _parsed() -> tuple[dict[Path, ast.Module], dict[str, str]]:
    """The modules that name a code, or a constant that is one; and those constants. A third of all: the others are not parsed."""
    texts = {path: path.read_text("utf-8") for path in _modules()}
    trees = {path: ast.parse(text) for path, text in texts.items() if CODE.search(text)}
    named = {name: code for tree in trees.values() for node in tree.body for name, code in _named_codes(node)}
    names = re.compile(rf"\b(?:{'|'.join(sorted({*named, *_SHARED_HINTS}))})\b")
    return {
        path: trees.get(path) or ast.parse(text) for path, text in texts.items() if path in trees or names.search(text)
    }, named


def _named_codes(node: ast.stmt) -> Iterator[tuple[str, str]]:
    """Names a statement gives to codes, one or several at once."""
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        if code := _code(node.value, {}):
            yield node.target.id, code
        return
    if not isinstance(node, ast.Assign):
        return
    for target in node.targets:
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        for name, value in zip(names, values, strict=False):
            if isinstance(name, ast.Name) and (code := _code(value, {})):
                yield name.id, code


def _fill(meaning: Meaning) -> None:
    """Add the next step that a class of errors implies."""
    if not meaning.hints and meaning.kinds == {"BugError"}:
        meaning.hints.append("report it with the log")
    if not meaning.hints and meaning.kinds == {"RetryableError"}:
        meaning.hints.append("nothing has to be done; the attempt is repeated")
    if not meaning.hints and meaning.kinds == {"log"}:
        meaning.hints.append("nothing has to be done")


def _modules() -> list[Path]:
    return [path for folder in PACKAGES for path in sorted((ROOT / folder).rglob("*.py"))]


def _module(path: Path) -> str:
    """The name under which other modules import from the file."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[next(i for i, part in enumerate(parts) if part.startswith("replicator_")) :])


def _package(path: Path) -> str:
    """The package a file belongs to; the engine counts as one."""
    parts = path.relative_to(ROOT).parts
    package = next(part for part in parts if part.startswith("replicator_"))
    return f"{package}.engine" if "engine" in parts else package


def _functions(tree: ast.Module) -> Iterator[ast.AST]:
    """The module's functions, each with all that is in it, and the statements outside of them."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node
    rest = [n for n in tree.body if not isinstance(n, (ast.FunctionDef, ast.ClassDef))]
    yield ast.Module(body=rest, type_ignores=[])


def _read_function(
    function: ast.AST, constants: Mapping[str, ast.expr], named: Mapping[str, str], found: dict[str, Meaning]
) -> None:
    local = dict(constants) | {
        target.id: node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for call in ast.walk(function):
        if isinstance(call, ast.Tuple):
            _read_tuple(call, local, named, found)
        if not isinstance(call, ast.Call):
            continue
        given = {k.arg: k.value for k in call.keywords if k.arg}
        if isinstance(extra := given.get("extra"), ast.Dict):
            given |= {
                str(k.value): v for k, v in zip(extra.keys, extra.values, strict=True) if isinstance(k, ast.Constant)
            }
        code = _code(given.get("code"), named)
        # A problem of the service names its HTTP status first.
        positional = [
            a for a in call.args if not _code(a, named) and not (isinstance(a, ast.Constant) and type(a.value) is int)
        ]
        code = code or next((c for a in call.args if (c := _code(a, named))), None)
        if code is None:
            continue
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if name == "error" and not _is_log(call.func):
            name = "DataError"  # created by a value policy
        _add(found[code], name, positional, given, local)


def _is_log(function: ast.expr) -> bool:
    """Whether a method is a logger's."""
    return isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "log"


def _read_tuple(
    row: ast.Tuple, local: Mapping[str, ast.expr], named: Mapping[str, str], found: dict[str, Meaning]
) -> None:
    """A row of a table of errors: class, code and hint."""
    code = next((c for part in row.elts if (c := _code(part, named))), None)
    kind = next((part.id for part in row.elts if isinstance(part, ast.Name) and part.id.endswith("Error")), None)
    if code is None or kind is None:
        return
    found[code].kinds.add(kind)
    hints = [_text(part, local) for part in row.elts if isinstance(part, (ast.Constant, ast.JoinedStr, ast.BinOp))]
    found[code].hints += [hint for hint in hints if not CODE.fullmatch(hint) and hint not in found[code].hints]


def _code(node: ast.AST | None, named: Mapping[str, str]) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.fullmatch(node.value):
        return node.value
    return named.get(node.id) if isinstance(node, ast.Name) else None


def _add(
    meaning: Meaning,
    name: str,
    positional: Sequence[ast.expr],
    given: Mapping[str, ast.expr],
    local: Mapping[str, ast.expr],
) -> None:
    if name.endswith("Error"):
        meaning.kinds.add(name)
    elif name in ("warning", "error", "info"):
        meaning.kinds.add("log")
    elif name == "Finding":
        meaning.kinds.add("finding")
    message = given.get("message") or given.get("description") or (positional[0] if positional else None)
    hint = given.get("hint") or given.get("suggestion")
    if name == "Finding" and len(positional) > 4:  # code, severity, description, impact, suggestion
        message, hint = positional[2], positional[4]
    for words, node in ((meaning.messages, message), (meaning.hints, hint)):
        text = " ".join(_text(node, local).split())
        if text.strip("… ") and text not in words:
            words.append(text)


def _text(node: ast.AST | None, local: Mapping[str, ast.expr], depth: int = 0) -> str:
    """The text of an expression; `…` for values known at run time."""
    if isinstance(node, ast.Constant):
        return re.sub(r"%[sdr]", "…", str(node.value))
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(_shared(part), local, depth) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left, local, depth) + _text(node.right, local, depth)
    if isinstance(node, ast.IfExp):
        choices = [_text(node.body, local, depth), _text(node.orelse, local, depth)]
        return max(choices, key=lambda text: (bool(text.strip("… ")), text.count("…") == 0, len(text)))
    if isinstance(node, ast.Name) and node.id in local and depth < 3:
        return _text(local[node.id], local, depth + 1)
    return "…"


def _shared(part: ast.expr) -> ast.expr:
    """A part of an f-string; the name in it when it is that of a shared hint."""
    value = part.value if isinstance(part, ast.FormattedValue) else None
    return value if isinstance(value, ast.Name) and value.id in _SHARED_HINTS else part
