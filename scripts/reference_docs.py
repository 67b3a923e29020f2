"""Writes the generated parts of the reference pages, from the code: settings, commands, error codes.

    python scripts/reference_docs.py           # rewrite what stands between the marks in docs/*.md
    python scripts/reference_docs.py --check   # say which page is out of date; exit code 1 when one is

A part stands between `<!-- begin NAME -->` and `<!-- end NAME -->`. Tests compare pages and code (`tests/docs/`).
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("sdk", "state", "runtime", "plugins")
CODE = re.compile(r"RPL-\d{4}")

CHAPTERS = {
    "1": "Settings, plugins, commands, demo",
    "2": "The selection of tables",
    "3": "Sources",
    "4": "The engine, and targets that are not as they were left",
    "5": "Data",
    "6": "Changes of structure",
    "7": "State and Spark",
    "8": "Fencing",
    "9": "Bugs and tests",
}

# What to do about a record of a topic that cannot be read.
_POISON = (
    "look at the record (topic, partition and offset are in the message); mend the producer, or set `onPoison` to"
    " `quarantine` to set such records aside"
)

# Names of hints that several modules import.
_SHARED_HINTS = {"COPY_AGAIN", "COPY_TABLE_AGAIN"}

# Codes whose kind or words the code puts together from parts, so that they cannot be read from one place.
BY_HAND: Mapping[str, tuple[str, str, str]] = {
    "RPL-1003": (
        "ConfigError",
        "a setting is unknown, missing or wrong",
        "the message names it and the nearest known one",
    ),
    "RPL-1004": (
        "ConfigError",
        "a macro has no value",
        "set what the message names: variable, file or keyring entry",
    ),
    "RPL-1005": (
        "ConfigError",
        "stages and connections do not make one source and one target",
        "join exactly one cdcSource to one cdcTarget",
    ),
    "RPL-1101": (
        "ConfigError",
        "no installed package offers a plugin of that name",
        "correct the name, or `pip install` the package that offers it; `replicator plugins` lists what is installed",
    ),
    "RPL-3304": (
        "NeedsUserError",
        "the publication is not there, or does not publish what the pipeline selects, and may not be changed",
        "run the SQL that the message shows as the publication's owner",
    ),
    "RPL-3900": (
        "DataError",
        "a record of a topic is not JSON, Avro or Protobuf, or not of the type its schema says",
        _POISON,
    ),
    "RPL-3904": (
        "DataError",
        "a value of a record without a schema does not fit the type `columnTypes` gives its column",
        _POISON,
    ),
    "RPL-3907": (
        "DataError",
        "a record has no key, and its table needs one",
        _POISON,
    ),
    "RPL-3909": (
        "DataError",
        "a tombstone says by its key alone what goes, and its table stands in a field of the value",
        _POISON,
    ),
    "RPL-3910": (
        "DataError",
        "a change record has no operation, or one that is not known",
        _POISON,
    ),
    "RPL-3911": (
        "DataError",
        "a change record has no row",
        _POISON,
    ),
    "RPL-3912": (
        "DataError",
        "a record does not say which table it belongs to",
        _POISON,
    ),
    "RPL-3913": (
        "DataError",
        "an update or delete of a table without a key does not carry the row before it",
        _POISON,
    ),
    "RPL-3914": (
        "DataError",
        "a value of a record is not of the form its semantic type has",
        _POISON,
    ),
    "RPL-3915": (
        "DataError",
        "a record of the format's topics has no Debezium envelope, or a schema without a row",
        _POISON,
    ),
    "RPL-3916": (
        "DataError",
        "the key of a record is a bare value, which names no column",
        _POISON,
    ),
    "RPL-3917": (
        "DataError",
        "a record of a topic of Debezium's envelopes has no value, and its key has other columns or types than the table's",
        _POISON,
    ),
    "RPL-3930": (
        "DataError",
        "the registry does not know a record's schema id, or the schema cannot be used",
        _POISON,
    ),
    "RPL-3973": (
        "DataError",
        "a schema of Protobuf writes NULL as zero or as empty text, so that the two cannot be told apart",
        "set `optional.for.nullables` of the connector's `value.converter` to `true` and let it write the topics anew",
    ),
    "RPL-6404": (
        "SchemaDriftError",
        "existing rows do not fit the new type of a column",
        "choose what the message offers: mend the rows, or copy the table anew",
    ),
    "RPL-9000": (
        "BugError",
        "an unexpected error happened",
        "run again with --debug and --log-level debug, and report it with the log",
    ),
}


@dataclass
class Meaning:
    """What the code base says of one error code.

    Attributes:
        kinds: Names of the classes it is raised as.
        messages: What its messages say; `…` for what is filled in.
        hints: The next steps.
        rooms: The rooms that use it.
    """

    kinds: set[str] = field(default_factory=set)
    messages: list[str] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)
    rooms: set[str] = field(default_factory=set)


@functools.cache
def error_codes() -> dict[str, Meaning]:
    """Every code in the rooms, with what is said of it there."""
    found: dict[str, Meaning] = defaultdict(Meaning)
    trees = {path: ast.parse(path.read_text("utf-8")) for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))}
    named = {name: code for tree in trees.values() for node in tree.body for name, code in _named_codes(node)}
    shared = {
        (f"{path.parent.name}.{path.stem}", target.id): node.value
        for path, tree in trees.items()
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id in _SHARED_HINTS
    }
    for path, tree in trees.items():
        room = _room(path)
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
                found[literal.value].rooms.add(room)
        for function in _functions(tree):
            _read_function(function, constants, named, found)
    for code, (kind, message, hint) in BY_HAND.items():
        found[code].kinds, found[code].messages, found[code].hints = {kind}, [message], [hint]
    for meaning in found.values():
        _fill(meaning)
    return dict(sorted(found.items()))


def _named_codes(node: ast.stmt) -> Iterator[tuple[str, str]]:
    """Names a statement gives to codes, one or several at once."""
    if not isinstance(node, ast.Assign):
        return
    for target in node.targets:
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        for name, value in zip(names, values, strict=False):
            if isinstance(name, ast.Name) and (code := _code(value, {})):
                yield name.id, code


def _fill(meaning: Meaning) -> None:
    """What goes without saying."""
    if not meaning.messages:
        meaning.messages.append("what was being done, and the server's own words")
    if not meaning.hints and meaning.kinds == {"BugError"}:
        meaning.hints.append("report it with the log")
    if not meaning.hints and meaning.kinds == {"RetryableError"}:
        meaning.hints.append("nothing has to be done; the attempt is repeated")
    if not meaning.hints and meaning.kinds == {"log"}:
        meaning.hints.append("nothing has to be done")


def _room(path: Path) -> str:
    """The package a file belongs to; the engine is a room of its own."""
    parts = path.relative_to(ROOT).parts
    package = next(part for part in parts if part.startswith("replicator_"))
    return f"{package}.engine" if "engine" in parts else package


def _functions(tree: ast.Module) -> Iterator[ast.AST]:
    """The module's functions, each once with all that is in it, and what stands outside of them."""
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
        positional = [a for a in call.args if not _code(a, named)]
        code = code or next((c for a in call.args if (c := _code(a, named))), None)
        if code is None:
            continue
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if name == "error" and not _is_log(call.func):
            name = "DataError"  # what a value policy makes
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
    """What an expression says when printed; `…` for what only running tells."""
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


def errors_part() -> str:
    """The sections of `docs/errors.md`."""
    from replicator_sdk import errors

    exits = {n: k.exit_code for n, k in vars(errors).items() if isinstance(k, type) and hasattr(k, "exit_code")}
    lines: list[str] = []
    chapter = ""
    for code, meaning in error_codes().items():
        if code[4] != chapter:
            chapter = code[4]
            lines += [f"## {CHAPTERS[chapter]}", ""]
        lines += [f"### {code}", ""]
        lines += [f"- {_sentence(message)}" for message in meaning.messages]
        lines += [f"- **Next:** {_sentence(hint)}" for hint in meaning.hints]
        ends = sorted({exits[kind] for kind in meaning.kinds if kind in exits})
        lines += [f"- {_sentence(_appearance(meaning, ends))}", ""]
    return "\n".join(lines)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "."


def _appearance(meaning: Meaning, ends: Sequence[int]) -> str:
    shown = [f"`{kind}`" for kind in sorted(meaning.kinds - {"log", "finding"})]
    shown += ["a warning in the log"] if "log" in meaning.kinds else []
    shown += ["a finding of an assessment"] if "finding" in meaning.kinds else []
    ending = f"; exit code {' or '.join(map(str, ends))}" if ends else ""
    return f"{' or '.join(shown) or 'error'} of {', '.join(sorted(meaning.rooms))}{ending}"


def settings_part(model: Any) -> str:
    """The table of a settings model."""
    from replicator_runtime.config.reference import describe_settings

    lines = ["| key | type | default | meaning |", "|---|---|---|---|"]
    for setting in describe_settings(model):
        default = f"`{setting.default}`" if setting.default not in ("", "required") else setting.default
        cells = (f"`{setting.key}`", setting.type, default, setting.description)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def pipeline_part() -> str:
    """The table of the pipeline's own keys."""
    from replicator_runtime.config import PipelineConfig

    return settings_part(PipelineConfig)


def plugins_part() -> str:
    """A table for each built-in plugin."""
    from replicator_runtime.plugin_host import PluginHost

    listing = PluginHost().listing()
    parts = [
        f"### {plugin.kind.capitalize()} `{plugin.name}`\n\n{settings_part(plugin.plugin.config_type)}\n"
        for plugin in listing.plugins
        if plugin.package.startswith("replicator ")
    ]
    return "\n".join(parts)


def commands_part() -> str:
    """Every command's help."""
    import os

    os.environ["COLUMNS"] = "100"
    from typer.main import get_command
    from typer.testing import CliRunner

    from replicator_runtime.cli.app import app

    names: list[list[str]] = []
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        names += [[name, inner] for inner in getattr(command, "commands", {})] or [[name]]
    runner = CliRunner()
    parts = []
    for words in names:
        shown = runner.invoke(app, [*words, "--help"], prog_name="replicator", terminal_width=100)
        parts.append(f"### replicator {' '.join(words)}\n\n```text\n{shown.stdout.strip()}\n```\n")
    return "\n".join(parts)


PARTS: Mapping[tuple[str, str], Callable[[], str]] = {
    ("errors.md", "errors"): errors_part,
    ("configuration.md", "pipeline"): pipeline_part,
    ("configuration.md", "plugins"): plugins_part,
    ("cli.md", "commands"): commands_part,
}


def rewritten(page: str, part: str, body: str) -> str:
    """`page` with `body` between the marks of `part`.

    Raises:
        ValueError: When the page has no such marks.
    """
    begin, end = f"<!-- begin {part} -->", f"<!-- end {part} -->"
    before, opened, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not opened or not closed:
        raise ValueError(f"the page has no marks of {part}")
    return f"{before}{begin}\n{body.rstrip()}\n{end}{after}"


def outdated() -> dict[Path, str]:
    """Pages that differ from the code, with what they should be."""
    pages: dict[Path, str] = {}
    for (name, part), make in PARTS.items():
        path = ROOT / "docs" / name
        pages[path] = rewritten(pages.get(path) or path.read_text("utf-8"), part, make())
    return {path: text for path, text in pages.items() if path.read_text("utf-8") != text}


def main() -> int:
    """Rewrite the pages, or say which are out of date."""
    pages = outdated()
    for path, text in pages.items():
        print(f"{'out of date' if '--check' in sys.argv else 'written'}: {path.relative_to(ROOT)}")
        if "--check" not in sys.argv:
            path.write_text(text, "utf-8")
    return 1 if pages and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
