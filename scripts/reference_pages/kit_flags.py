"""The table of what a plugin's test class may say that the plugin cannot do, from the classes of the kit."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from reference_pages.error_codes import ROOT

KIT = ROOT / "sdk" / "replicator_sdk" / "testing"
_FILES = (
    ("both", "capabilities.py"),
    ("target", "target_claims/*.py"),
    ("source", "*.py"),
    ("source", "source_claims/*.py"),
)


def kit_flags_part() -> str:
    """One line for each attribute that is true or false."""
    lines = ["| attribute | of the kit for | what it says |", "|---|---|---|"]
    for kind, pattern in _FILES:
        for path in sorted(KIT.glob(pattern)):
            if kind == "both" or path.name != "capabilities.py":
                lines += [f"| `{name}` | {kind} | {text} |" for name, text in _flags(path)]
    return "\n".join(lines)


def _flags(path: Path) -> Iterator[tuple[str, str]]:
    for found in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(found, ast.ClassDef):
            for attribute, text in zip(found.body, found.body[1:], strict=False):
                if isinstance(attribute, ast.AnnAssign) and ast.unparse(attribute.annotation) == "ClassVar[bool]":
                    yield _described(attribute, text)


def _described(attribute: ast.AnnAssign, text: ast.stmt) -> tuple[str, str]:
    assert isinstance(text, ast.Expr)
    assert isinstance(text.value, ast.Constant)
    assert attribute.value is not None
    default = "" if ast.unparse(attribute.value) == "True" else " `False` unless it is set."
    return ast.unparse(attribute.target), f"{' '.join(str(text.value.value).split())}{default}"
