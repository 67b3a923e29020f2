"""Makes this machine ready for tests with BigQuery: two emulators in a Python environment of their own, in the cache.

They pin other versions of Google's libraries than we do, so they never share an environment with the code under test.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

from tests.services.artifacts import cache_folder

REQUIREMENTS = (
    "bqemulator==1.4.0",  # BigQuery's REST interface over DuckDB
    "duckdb==1.5.5",
    "duckdb-extensions==1.5.5",  # with the two below: DuckDB's extensions from PyPI, so that nothing is downloaded at a start
    "duckdb-extension-spatial==1.5.5",
    "duckdb-extension-avro==1.5.5",
    "gcp-storage-emulator==2026.7.19",  # Cloud Storage over a folder
    "numpy",
)
_IMPORT = "from duckdb_extensions import import_extension; import_extension('spatial'); import_extension('avro')"
_NAME = "environment-2"  # raise the number when REQUIREMENTS change


def environment() -> Path:
    """The folder of the emulators' environment."""
    return cache_folder() / "bigquery" / _NAME


def program(name: str) -> Path:
    """One of the emulators' programs.

    Raises:
        FileNotFoundError: When `make servers` has not run.
    """
    found = environment() / "bin" / name
    if not found.exists():
        raise FileNotFoundError(f"{found} is missing: run `make servers`")
    return found


def home(folder: Path) -> dict[str, str]:
    """The environment of the emulators: DuckDB keeps its extensions in the home folder, which must be the one they came into."""
    return dict(os.environ, HOME=str(folder))


def prefetch() -> None:
    """Installs what is missing, saying what it does; an interrupted installation leaves nothing."""
    target = environment()
    if not target.exists():
        partial = target.with_name(f".partial-{uuid.uuid4().hex[:8]}")
        try:
            _install(partial)
            partial.rename(target)
            _fix_scripts(target, partial)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    print(f"  BigQuery and Cloud Storage emulators: {target}", flush=True)  # noqa: T201  # a setup step


def _install(folder: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *REQUIREMENTS], check=True)
    subprocess.run([python, "-c", _IMPORT], check=True, env=home(folder))


def _fix_scripts(folder: Path, former: Path) -> None:
    """Let the programs name the interpreter where it is now."""
    for script in (folder / "bin").iterdir():
        if script.is_file() and not script.is_symlink():
            content = script.read_bytes()
            if content.startswith(b"#!") and str(former).encode() in content:
                script.write_bytes(content.replace(str(former).encode(), str(folder).encode()))


if __name__ == "__main__":
    prefetch()
