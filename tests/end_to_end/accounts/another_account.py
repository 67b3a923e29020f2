"""An account that is not root's, for commands whose rights are the file system's to decide."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ACCOUNT: Final = 65534
_AS_IT: Final = ("setpriv", f"--reuid={ACCOUNT}", f"--regid={ACCOUNT}", "--clear-groups")


def as_another_account() -> tuple[str, ...]:
    """What is put before a command; skips the test where this process may not do that."""
    if not _may_be_another():
        pytest.skip("runs of another account need root, setpriv, and an interpreter that every account may run")
    return _AS_IT


def give(folder: Path) -> None:
    """Have a folder and all in it belong to the account."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, ACCOUNT, ACCOUNT)


@cache
def _may_be_another() -> bool:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        return False
    return subprocess.run([*_AS_IT, sys.executable, "-c", ""], check=False).returncode == 0
