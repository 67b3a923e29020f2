"""Finds forbidden imports: of another room, of the shell by the engine, of a driver outside the room that needs it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from tests.architecture.rooms import Source, rooms

ENGINE = "replicator_runtime.engine"
SHELL = ("replicator_runtime.cli", "replicator_runtime.service", "replicator_runtime.ui")

# Drivers and clients, and who may import them. A missing extra must break its own plugin and nothing else.
DRIVERS: dict[str, frozenset[str]] = {
    "psycopg": frozenset({"replicator_source_postgres"}),
    "adbc_driver_postgresql": frozenset({"replicator_source_postgres"}),
    "adbc_driver_manager": frozenset({"replicator_source_postgres"}),
    "sqlite3": frozenset({"replicator_source_sqlite", "replicator_runtime"}),  # the demo's shop is a SQLite file
    "delta": frozenset({"replicator_target_delta"}),
    "deltalake": frozenset({"replicator_target_delta", "replicator_runtime"}),  # the demo compares with another reader
    "pyroaring": frozenset({"replicator_target_delta"}),
    "py4j": frozenset({"replicator_target_delta", "replicator_runtime"}),
    # The SDK's and the runtime's imports of Spark stand inside functions; a test of what an import loads holds them to it.
    "pyspark": frozenset(
        {"replicator_sdk", "replicator_runtime", "replicator_source_postgres", "replicator_target_delta"}
    ),
    "google": frozenset({"replicator_target_bigquery"}),
    "keyring": frozenset({"replicator_runtime"}),
}


class Import(NamedTuple):
    """One imported module, where it stands, and whether type checkers alone see it."""

    name: str
    line: int
    typing_only: bool


def imports_of(tree: ast.Module) -> Iterator[Import]:
    """All imports of a module, those inside functions and `if TYPE_CHECKING` included."""
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in names:
            yield Import(name, node.lineno, id(node) in typing_only)


def violations(source: Source, tree: ast.Module) -> list[str]:
    """One line per forbidden import of a module; empty when it keeps the rules."""
    ours = {room.package for room in rooms()}
    allowed = source.room.may_import | {source.room.package}
    in_engine = _inside(source.module, ENGINE)
    found: set[str] = set()
    for imported in imports_of(tree):
        root = imported.name.partition(".")[0]
        place = f"{source.module}:{imported.line}"
        if root in ours and root not in allowed:
            found.add(f"{place} imports {root}; {source.room.package} may import {sorted(source.room.may_import)}")
        if in_engine and any(_inside(imported.name, shell) for shell in SHELL):
            found.add(f"{place} imports {imported.name}; the engine knows neither command line nor service nor page")
        if root in DRIVERS and source.room.package not in DRIVERS[root] and not imported.typing_only:
            found.add(f"{place} imports {root}; only {sorted(DRIVERS[root])} may")
    return sorted(found)


def _inside(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")
