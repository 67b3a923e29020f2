"""The import rule: sdk → nothing; state → sdk; a plugin → sdk; runtime → sdk, state; the engine knows no shell."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from tests.architecture.imports import violations
from tests.architecture.rooms import ROOT, Source, rooms, sources

_HEAVY = ("pyspark", "py4j", "pandas", "psycopg", "deltalake")


def test_no_room_imports_what_it_may_not() -> None:
    assert [line for source in sources() for line in violations(source, source.tree)] == []


@pytest.mark.parametrize(
    ("package", "module", "statement"),
    [
        ("replicator_sdk", "offset.py", "import replicator_state"),
        ("replicator_sdk", "offset.py", "from replicator_runtime.engine import worker"),
        ("replicator_state", "store.py", "def f():\n    import replicator_runtime"),
        ("replicator_source_sqlite", "plugin.py", "import replicator_source_postgres"),
        ("replicator_target_delta", "plugin.py", "from replicator_state import store"),
        ("replicator_runtime", "plugins.py", "import replicator_target_delta"),
        ("replicator_runtime", "engine/worker.py", "from replicator_runtime import cli"),
        ("replicator_runtime", "engine/worker.py", "from replicator_runtime.service.app import app"),
        ("replicator_runtime", "config.py", "import psycopg"),
        ("replicator_sdk", "context.py", "from psycopg import sql"),
        (
            "replicator_sdk",
            "context.py",
            "if TYPE_CHECKING:\n    import replicator_state\nelse:\n    import psycopg",
        ),
    ],
)
def test_a_forbidden_import_is_found_wherever_it_stands(package: str, module: str, statement: str) -> None:
    room = next(room for room in rooms() if room.package == package)
    assert violations(Source(room, room.path / module), ast.parse(statement))


def test_type_checkers_may_see_a_driver_anywhere() -> None:
    room = next(room for room in rooms() if room.package == "replicator_sdk")
    tree = ast.parse("if TYPE_CHECKING:\n    from pyspark.sql import SparkSession")
    assert violations(Source(room, room.path / "context.py"), tree) == []


def test_every_plugin_folder_falls_under_the_rule() -> None:
    folders = {path.parent for path in (ROOT / "plugins").glob("*/*/__init__.py")}
    assert folders
    assert {room.path for room in rooms() if room.folder.startswith("plugins")} == folders


@pytest.mark.parametrize("module", ["replicator_sdk", "replicator_state", "replicator_runtime.cli"])
def test_import_of_a_light_module_loads_neither_spark_nor_a_driver(module: str) -> None:
    """Control commands start quickly, and without the extras being installed."""
    program = f"import sys, {module}; print(*(name for name in {_HEAVY!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
