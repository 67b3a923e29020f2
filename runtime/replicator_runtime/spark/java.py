"""Finds the Java that Spark needs, and reports a missing one in one line."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from replicator_sdk.errors import NeedsUserError

OLDEST = 17
_HINT = "install Java 17 or 21, for example: apt-get install openjdk-17-jre-headless, or set JAVA_HOME to it"


def require_java() -> Path:
    """The `java` that Spark's launcher will take: of `JAVA_HOME` when that is set, else the one on the path.

    Raises:
        NeedsUserError: RPL-7201 when there is none, or it is older than Java 17.
    """
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not found or not os.access(found, os.X_OK):
        where = f"in JAVA_HOME={home}" if home else "on the path"
        raise NeedsUserError(f"Spark needs Java, and there is none {where}", code="RPL-7201", hint=_HINT)
    version = java_version(Path(found))
    if version is not None and version < OLDEST:
        raise NeedsUserError(
            f"Spark needs Java {OLDEST} or later, and {found} is Java {version}", code="RPL-7201", hint=_HINT
        )
    return Path(found)


def java_version(java: Path) -> int | None:
    """The major version of a `java`; None when it is unknown."""
    release = java.resolve().parent.parent / "release"  # far quicker than starting a virtual machine
    try:
        text = release.read_text()
    except OSError:
        text = _ask(java)
    match = re.search(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)', text)
    return int(match[1]) if match else None


def _ask(java: Path) -> str:
    try:
        return subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return ""
