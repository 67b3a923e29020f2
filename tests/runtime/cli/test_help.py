from __future__ import annotations

import subprocess
import sys

import pytest

from tests.runtime.cli.conftest import Replicator

COMMANDS = ["run", "validate", "assess", "tables", "status", "plugins", "demo", "offsets list", "offsets show"]


def test_help_loads_nothing_heavy() -> None:
    """Help within 200 ms is a matter of what is imported."""
    code = (
        "import sys\n"
        "from replicator_runtime.cli import main\n"
        "sys.argv = ['replicator', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'pyarrow', 'pyspark', 'numpy', 'pydantic', 'fsspec', 'rich', 'structlog', 'psycopg', 'replicator_sdk'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert "Usage: replicator" in done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(replicator: Replicator, command: str) -> None:
    done = replicator(*command.split(), "--help")
    assert done.exit_code == 0
    assert f"replicator {command}" in " ".join(done.stdout.split()).partition("Example: ")[2]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_speaks_json(replicator: Replicator, command: str) -> None:
    assert "--json" in replicator(*command.split(), "--help").stdout


def test_the_version_is_the_packages(replicator: Replicator) -> None:
    from importlib.metadata import version

    assert replicator("--version").stdout.strip() == version("replicator")


def test_no_arguments_show_help(replicator: Replicator) -> None:
    assert "Usage: replicator" in replicator().output
