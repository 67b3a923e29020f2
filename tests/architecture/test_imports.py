"""The import rule: sdk → nothing; state → sdk; a plugin → sdk; runtime → sdk, state; the engine never imports the command line."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.imports import DRIVERS, LOADERS, driver_of, imports_in, imports_of, name_of, violations
from tests.architecture.packages import ROOT, Source, packages, sources

_BY_NAME = "import_module|__import__"
_HEAVY = ("pyspark", "py4j", "pandas", "psycopg", "deltalake")


def test_no_package_imports_what_it_may_not() -> None:
    assert [line for source in sources() for line in violations(source, imports_in(source))] == []


@pytest.mark.parametrize(
    ("package", "module", "statement"),
    [
        ("replicator_sdk", "offset.py", "import replicator_state"),
        ("replicator_sdk", "offset.py", "from replicator_runtime.engine import worker"),
        ("replicator_state", "store.py", "def f():\n    import replicator_runtime"),
        ("replicator_source_sqlite", "plugin.py", "import replicator_source_postgres"),
        ("replicator_target_delta", "plugin.py", "from replicator_state import store"),
        ("replicator_runtime", "plugins.py", "import replicator_target_delta"),
        ("replicator_runtime", "config.py", "import psycopg"),
        ("replicator_runtime", "config.py", "import google.protobuf"),
        ("replicator_source_kafka", "plugin.py", "from google.cloud import bigquery"),
        ("replicator_source_mysql", "plugin.py", "def f():\n    return importlib.import_module('kafka')"),
        ("replicator_target_delta", "plugin.py", "import a_library_that_is_not_declared"),
        ("replicator_sdk", "offset.py", "import structlog"),
        ("replicator_sdk", "context.py", "from psycopg import sql"),
        (
            "replicator_sdk",
            "context.py",
            "if TYPE_CHECKING:\n    import replicator_state\nelse:\n    import psycopg",
        ),
    ],
)
def test_a_forbidden_import_is_found_wherever_it_is(package: str, module: str, statement: str) -> None:
    found = next(known for known in packages() if known.name == package)
    assert violations(Source(found, found.path / module), imports_of(ast.parse(statement)))


def test_type_checkers_may_see_a_driver_anywhere() -> None:
    sdk = next(package for package in packages() if package.name == "replicator_sdk")
    tree = ast.parse("if TYPE_CHECKING:\n    from pyspark.sql import SparkSession")
    assert violations(Source(sdk, sdk.path / "context.py"), imports_of(tree)) == []


def test_every_permission_of_a_library_is_used() -> None:
    used = {(driver_of(i.name), source.package.name) for source in sources() for i in imports_in(source)}
    assert {(name, package) for name, packages in DRIVERS.items() for package in packages} - used == set()


def test_every_function_that_imports_a_module_by_name_is_known() -> None:
    """Otherwise the rule does not see what they import."""
    functions = (
        (source.module, node)
        for source in sources()
        if re.search(_BY_NAME, source.path.read_text("utf-8"))
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef) and node.name not in LOADERS
    )
    unknown = [
        f"{module}.{function.name}"
        for module, function in functions
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and re.fullmatch(_BY_NAME, name_of(call.func))
        if not call.args or not isinstance(call.args[0], ast.Constant)
    ]
    assert unknown == []


@pytest.fixture(scope="module")
def runtime_copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the runtime and the project's settings."""
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "runtime" / "replicator_runtime", folder / "replicator_runtime")
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def test_an_import_of_the_command_line_by_the_engine_is_found_through_another_module_too(runtime_copy: Path) -> None:
    lint = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    environment = {**os.environ, "PYTHONPATH": str(runtime_copy)}
    kept = subprocess.run(lint, cwd=runtime_copy, env=environment, capture_output=True, text=True, check=False)
    assert kept.returncode == 0, kept.stdout + kept.stderr
    runtime = runtime_copy / "replicator_runtime"
    (runtime / "between.py").write_text("from replicator_runtime.cli import app\n")
    (runtime / "engine" / "planted.py").write_text("import replicator_runtime.between\n")
    broken = subprocess.run(lint, cwd=runtime_copy, env=environment, capture_output=True, text=True, check=False)
    assert broken.returncode == 1
    assert "replicator_runtime.engine.planted -> replicator_runtime.between" in broken.stdout


def test_every_plugin_folder_falls_under_the_rule() -> None:
    folders = {path.parent for path in (ROOT / "plugins").glob("*/*/__init__.py")}
    assert folders
    assert {package.path for package in packages() if package.folder.startswith("plugins")} == folders


@pytest.mark.parametrize(
    "module", ["replicator_sdk", "replicator_state", "replicator_runtime.cli", "replicator_runtime.notices.delivery"]
)
def test_import_of_a_light_module_loads_neither_spark_nor_a_driver(module: str) -> None:
    """Control commands start quickly, and without the extras being installed."""
    program = f"import sys, {module}; print(*(name for name in {_HEAVY!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
