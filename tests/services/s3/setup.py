"""Makes this machine ready for tests with S3: a server in a Python environment of its own, in the cache.

It pins versions of its own, so it does not share an environment with the code under test.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import uuid
from pathlib import Path

from tests.services.artifacts import cache_folder, s3a_jars

REQUIREMENTS = ("moto[s3]==5.2.5", "flask==3.1.3", "flask-cors==6.0.5", "werkzeug==3.1.9")
_NAME = "environment-1"  # raise the number when REQUIREMENTS change


def environment() -> Path:
    """The folder of the server's environment."""
    return cache_folder() / "s3" / _NAME


def python() -> Path:
    """The interpreter that the server runs in.

    Raises:
        FileNotFoundError: When `make servers` has not run.
    """
    found = environment() / "bin" / "python"
    if not found.exists():
        raise FileNotFoundError(f"{found} is missing: run `make servers`")
    return found


def prefetch() -> None:
    """Installs what is missing, saying what it does; an interrupted installation leaves nothing."""
    target = environment()
    if not target.exists():
        partial = target.with_name(f".partial-{uuid.uuid4().hex[:8]}")
        try:
            subprocess.run([sys.executable, "-m", "venv", partial], check=True)
            pip = [str(partial / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
            subprocess.run([*pip, *REQUIREMENTS], check=True)
            partial.rename(target)  # only the interpreter is used from there, which may move
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    print(f"  S3 server: {target}", flush=True)  # noqa: T201  # a setup step
    print(f"  Hadoop's S3A: {len(s3a_jars())} jars", flush=True)  # noqa: T201  # a setup step


if __name__ == "__main__":
    prefetch()
