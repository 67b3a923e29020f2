"""The SDK's public modules are listed in docs/sdk.md; built-in plugins import nothing else of it, like any other plugin."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

import replicator_sdk
from tests.architecture.packages import ROOT, SDK, sources

_PAGE = ROOT / "docs" / "sdk.md"
_PLUGINS = [source for source in sources() if source.package.folder.startswith("plugins")]


def public_modules() -> set[str]:
    """The modules in the tables of docs/sdk.md."""
    return set(re.findall(r"^\| `(replicator_sdk[\w.]*)` \|", _PAGE.read_text("utf-8"), re.MULTILINE))


def private_imports(tree: ast.Module, public: set[str]) -> list[str]:
    """What a module imports of the SDK that is neither exported by `replicator_sdk` nor in a public module."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if _is_sdk(alias.name) and alias.name not in public | {SDK}]
        elif isinstance(node, ast.ImportFrom) and node.module and _is_sdk(node.module):
            for alias in node.names:
                if not _is_public(node.module, alias.name, public):
                    found.append(f"{node.module}.{alias.name}")
    return found


def _is_sdk(module: str) -> bool:
    return module == SDK or module.startswith(f"{SDK}.")


def _is_public(module: str, name: str, public: set[str]) -> bool:
    if f"{module}.{name}" in public:
        return True
    if module == SDK:
        return name in replicator_sdk.__all__
    return module in public and not name.startswith("_")


def test_every_public_module_exists() -> None:
    modules = public_modules()
    assert len(modules) > 20
    for module in modules:
        importlib.import_module(module)


def test_every_module_of_the_sdk_is_public_or_known_to_be_internal() -> None:
    """A new module is put into docs/sdk.md or here."""
    packages = {module for module in public_modules() if _path(module).is_dir()}
    internal = {f"{SDK}.discovery.hookspec"}
    modules = {source.module for source in sources() if source.package.name == SDK}
    left = {
        module
        for module in modules - public_modules() - internal - {SDK}
        if not module.startswith(f"{SDK}.testing")  # the kit's own parts
        and not _path(module).is_dir()
        and module.rpartition(".")[0] not in packages
    }
    assert left == set()


def test_plugins_import_public_modules_only() -> None:
    public = public_modules()
    assert _PLUGINS
    found = {source.module: names for source in _PLUGINS if (names := private_imports(source.tree, public))}
    assert found == {}


def test_public_names_exist_in_their_modules() -> None:
    assert [name for name in replicator_sdk.__all__ if not hasattr(replicator_sdk, name)] == []


@pytest.mark.parametrize(
    "statement",
    [
        "from replicator_sdk.net_change.keys import encode_rows",
        "from replicator_sdk.batch import _hidden",
        "from replicator_sdk import hookspec",
        "import replicator_sdk.discovery.hookspec",
    ],
)
def test_an_import_of_something_internal_is_found(statement: str) -> None:
    assert private_imports(ast.parse(statement), public_modules())


def _path(module: str) -> Path:
    return ROOT / "sdk" / module.replace(".", "/")
