"""Programs from Debian's packages, unpacked into the cache folder.

Nothing is installed: apt resolves and fetches the packages in a folder of its own, checking them against Debian's signed
index, and `dpkg-deb` unpacks them. No account needs to be root.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.services.processes import ServerError

ARCHIVE = "http://deb.debian.org/debian"  # plain, as everywhere with apt: the index is signed, and has every package's checksum
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


@dataclass(frozen=True, slots=True)
class Packages:
    """A package of a release of Debian, and what it depends on.

    Attributes:
        name: The package.
        suite: The release.
        expires: Whether an index past its date is refused. It must be False for unstable, whose index is dated for a week:
            mirrors with a longer lag are common, and its signature is checked all the same.
        alone: Whether it is wanted without what it depends on, since this machine has that.
        left_out: Packages whose names begin so are not unpacked.
    """

    name: str
    suite: str
    expires: bool = True
    alone: bool = False
    left_out: tuple[str, ...] = ()


def unpacked(packages: Packages, target: Path, *, unused: Sequence[str] = ()) -> Path:
    """The folder `target`, with the packages unpacked at the first call on this machine; several processes may ask at a time.

    Args:
        packages: Which.
        target: Where; it does not change any more once it is there.
        unused: Folders in it that nothing needs.

    Raises:
        ServerError: this machine has no apt, or the packages cannot be had.
    """
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(dir=target.parent, prefix=".partial-"))
    try:
        with tempfile.TemporaryDirectory(prefix="replicator-apt-") as fetched:
            for package in _fetch(packages, Path(fetched)):
                if not package.name.startswith(packages.left_out):
                    _run(["dpkg-deb", "--extract", package, partial], f"cannot unpack {package.name}")
        for folder in unused:
            shutil.rmtree(partial / folder, ignore_errors=True)
        partial.chmod(0o755)
        put_in_place(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return target


def put_in_place(folder: Path, target: Path) -> None:
    """Renames a finished folder; when another process was first, its folder stays and this one is left to the caller."""
    try:
        folder.rename(target)
    except OSError:
        if not target.exists():
            raise


def _fetch(packages: Packages, folder: Path) -> list[Path]:
    """Fetches the package and, unless it is wanted alone, everything it depends on, as if nothing were installed here."""
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb") and KEYRING.exists()):
        raise ServerError(
            f"{packages.name} for the tests comes from Debian's packages, which needs apt-get, dpkg-deb and {KEYRING}: "
            "on Debian and Ubuntu, apt-get install debian-archive-keyring"
        )
    folder.chmod(0o755)  # apt downloads as an account of its own
    for part in ("lists/partial", "cache/archives/partial"):
        (folder / part).mkdir(parents=True)
    dated = "" if packages.expires else " check-valid-until=no"
    sources = folder / "sources.list"
    sources.write_text(f"deb [arch=amd64 signed-by={KEYRING}{dated}] {ARCHIVE} {packages.suite} main\n")
    settings = {
        "Dir::Etc::sourcelist": sources, "Dir::Etc::sourceparts": "/dev/null", "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null", "Dir::State": folder, "Dir::State::lists": folder / "lists",
        "Dir::State::status": "/dev/null", "Dir::State::extended_states": folder / "extended",
        "Dir::Cache": folder / "cache", "Dir::Cache::archives": folder / "cache/archives",
        "APT::Architecture": "amd64", "APT::Architectures": "amd64", "APT::Get::List-Cleanup": "false",
        "Acquire::Languages": "none", "Acquire::Retries": 3, "Debug::NoLocking": "true",
    }  # fmt: skip
    apt: list[str | Path] = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in settings.items())]
    problem = f"cannot fetch {packages.name} of Debian {packages.suite}"
    _run([*apt, "-oAPT::Update::Error-Mode=any", "update"], problem)
    archives = folder / "cache/archives"
    if packages.alone:
        _run([*apt, "download", packages.name], problem, folder=archives)
    else:
        _run([*apt, "--yes", "--download-only", "--no-install-recommends", "install", packages.name], problem)
    return sorted(archives.glob("*.deb"))


def _run(command: Sequence[str | Path], problem: str, *, folder: Path | None = None) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode:
        raise ServerError(f"{problem}: {command[0]} ended with {done.returncode}:\n{done.stderr}")
