"""Modules and functions stay small enough to be read whole."""

from __future__ import annotations

import ast
import statistics
from collections import Counter

from tests.architecture.packages import ROOT, sources

_MODULE_LINES, _MEDIAN_MODULE_LINES = 500, 130
_FUNCTION_LINES, _FUNCTION_LINES_AT_MOST = 40, 60
_FOLDER_MODULES, _MEDIAN_FOLDER_MODULES = 12, 9
_VAGUE = {"utils", "util", "common", "helpers", "helper", "manager", "base", "misc"}


def lines_without_docstring(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from `def` to the end, the docstring's not counted."""
    first = function.body[0]
    docstring = ast.get_docstring(function, clean=False) is not None
    skipped = (first.end_lineno or first.lineno) - first.lineno + 1 if docstring else 0
    return (function.end_lineno or function.lineno) - function.lineno + 1 - skipped


def test_modules_stay_below_the_limit_and_most_are_much_smaller() -> None:
    sizes = {source.module: len(source.path.read_text(encoding="utf-8").splitlines()) for source in sources()}
    assert {module: size for module, size in sizes.items() if size > _MODULE_LINES} == {}
    assert statistics.median(sizes.values()) <= _MEDIAN_MODULE_LINES


def test_folders_hold_few_modules() -> None:
    parts = ("sdk", "state", "runtime", "plugins", "tests", "bench", "scripts")
    modules = (path for part in parts for path in (ROOT / part).rglob("*.py") if path.name != "__init__.py")
    sizes = Counter(path.parent.relative_to(ROOT).as_posix() for path in modules)
    assert {name: size for name, size in sizes.items() if size > _FOLDER_MODULES} == {}
    assert statistics.median(sizes.values()) <= _MEDIAN_FOLDER_MODULES


def test_functions_fit_a_screen() -> None:
    """At most one in a hundred is longer than 40 lines, and none longer than 60."""
    sizes = {
        f"{source.module}:{node.name}:{node.lineno}": lines_without_docstring(node)
        for source in sources()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    long = {name: size for name, size in sizes.items() if size > _FUNCTION_LINES}
    assert {name: size for name, size in long.items() if size > _FUNCTION_LINES_AT_MOST} == {}
    assert len(long) <= len(sizes) // 100, long


def test_the_docstring_of_a_function_does_not_count() -> None:
    tree = ast.parse('def f():\n    """One.\n\n    Three.\n    """\n    x = 1\n    return x\n')
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    assert lines_without_docstring(function) == 3


def test_module_names_are_nouns_of_the_domain() -> None:
    vague = [s.path.relative_to(ROOT) for s in sources() if set(s.module.split(".")) & _VAGUE]
    assert vague == []
