"""Everything public says what it promises: all of it in the SDK and the state, 95 % of it elsewhere."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.packages import Package, packages, sources

_COMPLETE = {"replicator_sdk", "replicator_state"}
_SAID_ELSEWHERE = {"override", "overload", "setter", "hookimpl"}  # the promise is where the name is declared

Documentable = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def public_definitions(tree: ast.Module, module: str) -> Iterator[tuple[str, Documentable]]:
    """The module, its public classes and functions, and the public methods of those classes."""
    yield module, tree
    stack: list[tuple[str, ast.Module | ast.ClassDef]] = [(module, tree)]
    while stack:
        prefix, parent = stack.pop()
        for node in parent.body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith(
                "_"
            ):
                if any(_decorator(line) in _SAID_ELSEWHERE for line in node.decorator_list):
                    continue
                yield f"{prefix}.{node.name}", node
                if isinstance(node, ast.ClassDef):
                    stack.append((f"{prefix}.{node.name}", node))


def _decorator(node: ast.expr) -> str:
    called = node.func if isinstance(node, ast.Call) else node
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def _is_private(module: str) -> bool:
    return any(part.startswith("_") for part in module.split("."))


@pytest.mark.parametrize("package", packages(), ids=lambda package: package.name)
def test_public_names_of_the_package_are_documented(package: Package) -> None:
    public = [
        (name, ast.get_docstring(node))
        for source in sources()
        if source.package == package and not _is_private(source.module)
        for name, node in public_definitions(source.tree, source.module)
    ]
    missing = [name for name, docstring in public if not docstring]
    allowed = 0 if package.name in _COMPLETE else len(public) * 5 // 100
    assert public
    assert len(missing) <= allowed, f"{len(missing)} of {len(public)} have no docstring: {missing}"


def test_a_missing_docstring_is_found() -> None:
    tree = ast.parse(
        '"""M."""\nclass A:\n    """A."""\n    def f(self): ...\n    def _g(self): ...\n    @override\n    def h(self): ...\n'
    )
    missing = [name for name, node in public_definitions(tree, "m") if not ast.get_docstring(node)]
    assert missing == ["m.A.f"]
