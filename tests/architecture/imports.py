"""Finds forbidden imports: of another package, or of a library that the package may not use.

This is the only place of the rules between packages; layers inside a package are in pyproject.toml, for import-linter.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

from tests.architecture.packages import ROOT, SDK, Source, packages

_RUNTIME = "replicator_runtime"
_POSTGRES, _MYSQL = "replicator_source_postgres", "replicator_source_mysql"
_KAFKA, _SQLITE = "replicator_source_kafka", "replicator_source_sqlite"
_DELTA, _BIGQUERY = "replicator_target_delta", "replicator_target_bigquery"
_ICEBERG = "replicator_target_iceberg"

# Libraries that are no core dependency, and who may import them. A missing extra must break its own plugin and nothing else.
DRIVERS: dict[str, frozenset[str]] = {
    "adbc_driver_postgresql": frozenset({_POSTGRES}),
    "alembic": frozenset({_RUNTIME}),
    "anyio": frozenset({_RUNTIME}),  # the threads of starlette's applications, with which it comes
    "apprise": frozenset({_RUNTIME}),
    "crc32c": frozenset({_KAFKA}),
    "deltalake": frozenset({_RUNTIME}),  # the demo compares with another reader
    "fastapi": frozenset({_RUNTIME}),
    "fastavro": frozenset({_KAFKA}),
    "google": frozenset({_BIGQUERY}),
    "google.protobuf": frozenset({_BIGQUERY, _KAFKA}),
    "google.type": frozenset({_KAFKA}),
    "grpc": frozenset({_BIGQUERY}),
    "grpc_tools": frozenset({_KAFKA}),
    "confluent_kafka": frozenset({_RUNTIME}),
    "h11": frozenset({_RUNTIME}),  # uvicorn's HTTP, with which it comes
    "hypothesis": frozenset({SDK}),  # the conformance kit
    "kafka": frozenset({_KAFKA}),
    "keyring": frozenset({_RUNTIME}),
    "prometheus_client": frozenset({_RUNTIME}),
    "psycopg": frozenset({_POSTGRES}),
    "kubernetes": frozenset({_RUNTIME}),
    "openlineage": frozenset({_RUNTIME}),
    "opentelemetry": frozenset({_RUNTIME}),
    "ptars": frozenset({_KAFKA}),
    "py4j": frozenset({_DELTA, _ICEBERG}),
    "pymysql": frozenset({_MYSQL}),
    "pymysqlreplication": frozenset({_MYSQL}),
    "pyroaring": frozenset({_DELTA, _ICEBERG}),
    # The SDK and the runtime import Spark inside functions; a test of what an import loads checks it.
    "pyspark": frozenset({SDK, _RUNTIME, _DELTA, _BIGQUERY, _ICEBERG}),
    "pytest": frozenset({SDK}),  # the conformance kit
    "sqlalchemy": frozenset({_RUNTIME}),
    "sse_starlette": frozenset({_RUNTIME}),
    "sqlglot": frozenset({_MYSQL}),
    "sqlite3": frozenset({_SQLITE, _RUNTIME}),  # the demo's shop is a SQLite file
    "starlette": frozenset({_RUNTIME}),
    "uvicorn": frozenset({_RUNTIME}),
    "zstandard": frozenset({_MYSQL}),
}
# Distributions whose packages have other names.
_IMPORTED_AS = {"python-ulid": "ulid"}
# Functions that import the module which their first argument names; `plugin_class` imports parts of Apprise only.
LOADERS = frozenset({"import_module", "library", "plugin_class"})


class Import(NamedTuple):
    """One imported module, its line, and whether type checkers alone see it."""

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
        elif isinstance(node, ast.Call) and name_of(node.func) in LOADERS:
            names = [a.value for a in node.args[:1] if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        else:
            continue
        for name in names:
            yield Import(name, node.lineno, id(node) in typing_only)


@cache
def imports_in(source: Source) -> tuple[Import, ...]:
    """All imports of a module of ours; it is parsed once, since that takes milliseconds for each of a thousand."""
    return tuple(imports_of(source.tree))


def name_of(function: ast.expr) -> str:
    """The last part of the name of what is called; empty when it has none."""
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


@cache
def core(package: str) -> frozenset[str]:
    """What the distribution of a package always installs, by the names that are imported."""
    path = "sdk/pyproject.toml" if package == SDK else "pyproject.toml"
    project = tomllib.loads((ROOT / path).read_text(encoding="utf-8"))["project"]
    names = (re.split(r"[\[<>=!~ ;]", requirement, maxsplit=1)[0] for requirement in project["dependencies"])
    return frozenset(_IMPORTED_AS.get(name, name) for name in names)


def driver_of(module: str) -> str | None:
    """The entry of DRIVERS that a module belongs to, the longest one."""
    parts = module.split(".")
    names = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((name for name in names if name in DRIVERS), None)


def violations(source: Source, imports: Iterable[Import]) -> list[str]:
    """One line per forbidden import of a module; empty when it keeps the rules."""
    found = ((imported, forbidden(source, imported)) for imported in imports)
    return sorted({f"{source.module}:{imported.line} imports {imported.name}; {why}" for imported, why in found if why})


def forbidden(source: Source, imported: Import) -> str | None:
    """Why a module may not import that; None when it may."""
    package, root = source.package.name, imported.name.partition(".")[0]
    if root in {package.name for package in packages()}:
        allowed = source.package.may_import | {package}
        return None if root in allowed else f"{package} may import {sorted(source.package.may_import)}"
    if imported.typing_only:
        return None
    if driver := driver_of(imported.name):
        return None if package in DRIVERS[driver] else f"only {sorted(DRIVERS[driver])} may"
    if root in sys.stdlib_module_names or root in core(package):
        return None
    return "it is neither a core dependency nor in DRIVERS"
