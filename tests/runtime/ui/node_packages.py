"""npm packages that check the page, pinned by `types/package-lock.json` and kept in the cache folder of the tests."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.services.artifacts import cache_folder

TYPES = Path(__file__).parent / "types"
_PINNED = ("package.json", "package-lock.json")
_INSTALL = 240


def node_packages() -> Path:
    """The folder `node_modules` of the pinned packages; they are installed at the first use.

    Skips the test where there is no node, or where the registry cannot be reached at the first use.
    """
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("node and npm are not installed")
    digest = hashlib.sha256(b"".join((TYPES / name).read_bytes() for name in _PINNED)).hexdigest()[:16]
    folder = cache_folder() / "npm" / digest
    if not folder.is_dir():
        _install(npm, folder)
    return folder / "node_modules"


def _install(npm: str, folder: Path) -> None:
    """Install beside, then rename, so that two workers never see half of it."""
    beside = folder.with_name(f"{folder.name}.{os.getpid()}")
    beside.mkdir(parents=True)
    try:
        for name in _PINNED:
            shutil.copy(TYPES / name, beside)
        command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        found = subprocess.run(command, cwd=beside, capture_output=True, text=True, timeout=_INSTALL, check=False)
        if found.returncode != 0:
            pytest.skip(f"npm cannot install what checks the page: {found.stderr[-400:]}")
        try:
            beside.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)
