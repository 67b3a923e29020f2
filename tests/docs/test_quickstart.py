"""The quickstart leads to Delta tables that equal the source, by its own commands, which print what the page shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from tests.services.postgres.fixtures import PrivatePostgres
from tests.services.postgres.server import PostgresServer
from tests.services.processes import LOOPBACK
from tests.services.spark.session import INTERPRETER, JAVA_OPTIONS

_PAGE = (Path(__file__).parents[2] / "docs" / "quickstart.md").read_text("utf-8")
_BLOCK = re.compile(r"^```(console|sql|json|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_TIME = re.compile(r"\d\d:\d\d:\d\d")
_SECONDS = 900
_SETUP = ("make setup", ". .venv/bin/activate")  # what ran before this test could


def test_the_commands_of_the_quickstart_copy_a_database_and_follow_it(
    private_postgres: PrivatePostgres, tmp_path: Path
) -> None:
    server = private_postgres()
    environment = {
        **os.environ,
        **INTERPRETER,
        **JAVA_OPTIONS,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    for language, text in _BLOCK.findall(_PAGE):
        if language == "sql":
            _execute(server, text)
        elif language == "json":
            (tmp_path / "pipeline.json").write_text(
                text.replace('"localhost"', f'"{LOOPBACK}"').replace("5432", str(server.port))
            )
        elif language == "python":
            _run(f"{sys.executable} - <<'END'\n{text}END", tmp_path, environment)
            assert _rows(tmp_path, "customers") == [(1, "Ada", "GB"), (2, "Grace", "US"), (3, "Linus", "FI")]
            assert [row[0] for row in _rows(tmp_path, "orders")] == [10, 11, 12]
        else:
            for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
                if command.startswith("export "):
                    name, _, value = command.removeprefix("export ").partition("=")
                    environment[name] = value.strip("'")
                elif command not in _SETUP:
                    if command.startswith("replicator status"):
                        _assert_followed(tmp_path)
                    _assert_printed(shown, _run(command, tmp_path, environment))
    assert list(tmp_path.iterdir()) == []


def _assert_followed(folder: Path) -> None:
    assert _rows(folder, "customers") == [
        (1, "Ada", "GB", None),
        (2, "Grace", "US", None),
        (3, "Linus", "NO", None),
        (4, "Edsger", "NL", "edsger@example.org"),
    ]
    assert [row[0] for row in _rows(folder, "orders")] == [10, 12]


def _rows(folder: Path, table: str) -> list[tuple[object, ...]]:
    query = QueryBuilder().register("t", DeltaTable(folder / "lake" / "public" / table)).execute("SELECT * FROM t")
    rows = pa.table(query.read_all()).to_pylist()
    return sorted(tuple(value for name, value in row.items() if not name.startswith("_")) for row in rows)


def _execute(server: PostgresServer, text: str) -> None:
    database = "postgres"
    for line in re.sub(r"\n\s+", " ", text).splitlines():
        if line.startswith("\\c "):
            database = line.removeprefix("\\c ").strip()
        elif line.strip():
            server.execute(line, database)


def _assert_printed(shown: str, printed: str) -> None:
    """The lines that the page shows are printed in this order; lines between them may be left out of the page."""
    lines = iter(printed.splitlines())
    for line in filter(None, shown.splitlines()):
        form = re.compile(_TIME.sub(r"\\d\\d:\\d\\d:\\d\\d", re.escape(line)).replace(r"\.\.\.", ".*"))
        assert any(form.fullmatch(other.rstrip()) for other in lines), f"{line!r} is not printed:\n{printed}"


def _run(command: str, folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr[-4000:]}"
    return done.stdout + done.stderr
