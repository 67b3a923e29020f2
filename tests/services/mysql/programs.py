"""MySQL's and MariaDB's server programs, unpacked from Debian's packages into the cache folder, each with its own libraries.

Nothing is installed: apt resolves and fetches the packages in a folder of its own, checking them against Debian's signed
index, and `dpkg-deb` unpacks them. The programs run with the C library they were built for, through its own loader, so a
server of Debian unstable runs on Debian 12, and no account needs to be root.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.services.artifacts import cache_folder
from tests.services.processes import ServerError

ARCHIVE = "http://deb.debian.org/debian"  # plain, as everywhere with apt: the index is signed, and has every package's checksum
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_LIBRARIES = ("usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu")
_NOT_RUN = ("perl", "libperl")  # packages of the maintainers' scripts
_NOT_READ = ("usr/bin", "usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/lintian")


@dataclass(frozen=True, slots=True)
class Release:
    """A server version as a release of Debian has it.

    `expires` says whether an index past its date is refused. It must be False for unstable, whose index is dated for a week:
    mirrors with a longer lag are common, and its signature is checked all the same.
    """

    name: str
    suite: str
    package: str
    program: str
    expires: bool = True

    @property
    def is_mariadb(self) -> bool:
        """Whether it is MariaDB."""
        return self.program.endswith("mariadbd")


MYSQL_9 = Release("mysql-9", "sid", "mysql-server-core", "usr/sbin/mysqld", expires=False)
MARIADB_10_11 = Release("mariadb-10.11", "bookworm", "mariadb-server-core", "usr/sbin/mariadbd")
MARIADB_11_8 = Release("mariadb-11.8", "trixie", "mariadb-server-core", "usr/sbin/mariadbd")
RELEASES = (MYSQL_9, MARIADB_10_11, MARIADB_11_8)


@dataclass(frozen=True, slots=True)
class Programs:
    """A release unpacked in a folder, which does not change any more."""

    release: Release
    folder: Path

    @property
    def command(self) -> list[str | Path]:
        """How the server program is started: the loader, the folders of its libraries, the program, and the folder of its files."""
        libraries = [self.folder / name for name in _LIBRARIES if (self.folder / name).is_dir()]
        loader = next(path for folder in libraries for path in folder.glob("ld-linux-x86-64.so.2"))
        return [
            loader, "--library-path", ":".join(map(str, libraries)), self.folder / self.release.program, "--no-defaults",
            f"--basedir={self.folder / 'usr'}", f"--lc-messages-dir={self.share}",
            f"--character-sets-dir={self.share / 'charsets'}", f"--plugin-dir={self.folder / 'usr/lib/mysql/plugin'}",
        ]  # fmt: skip

    @property
    def environment(self) -> dict[str, str]:
        """Variables that keep its OpenSSL from this machine's settings and modules, which belong to another version."""
        modules = self.folder / _LIBRARIES[0] / "ossl-modules"
        return {"OPENSSL_CONF": "/dev/null", "OPENSSL_MODULES": str(modules)}

    @property
    def share(self) -> Path:
        """The folder of error messages, character sets and the SQL that makes the system tables."""
        return next((self.folder / "usr/share").glob("*/charsets")).parent


def programs(release: Release) -> Programs:
    """The release's programs, fetched and unpacked at the first call on this machine; several processes may ask at a time.

    Raises:
        ServerError: this machine has no apt, or the packages cannot be had.
    """
    target = cache_folder() / "mysql" / release.name
    if target.exists():
        return Programs(release, target)
    target.parent.mkdir(parents=True, exist_ok=True)
    unpacked = Path(tempfile.mkdtemp(dir=target.parent, prefix=".partial-"))
    try:
        with tempfile.TemporaryDirectory(prefix="replicator-apt-") as fetched:
            for package in _fetch(release, Path(fetched)):
                if not package.name.startswith(_NOT_RUN):
                    _run(["dpkg-deb", "--extract", package, unpacked], f"cannot unpack {package.name}")
        for unused in _NOT_READ:
            shutil.rmtree(unpacked / unused, ignore_errors=True)
        unpacked.chmod(0o755)
        put_in_place(unpacked, target)
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)
    return Programs(release, target)


def put_in_place(folder: Path, target: Path) -> None:
    """Renames a finished folder; when another process was first, its folder stays and this one is left to the caller."""
    try:
        folder.rename(target)
    except OSError:
        if not target.exists():
            raise


def _fetch(release: Release, folder: Path) -> list[Path]:
    """Fetches the package and everything it depends on, down to the C library, as if nothing were installed here."""
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb") and KEYRING.exists()):
        raise ServerError(
            f"{release.name} for the tests comes from Debian's packages, which needs apt-get, dpkg-deb and {KEYRING}: "
            "on Debian and Ubuntu, apt-get install debian-archive-keyring"
        )
    folder.chmod(0o755)  # apt downloads as an account of its own
    for part in ("lists/partial", "cache/archives/partial"):
        (folder / part).mkdir(parents=True)
    dated = "" if release.expires else " check-valid-until=no"
    sources = folder / "sources.list"
    sources.write_text(f"deb [arch=amd64 signed-by={KEYRING}{dated}] {ARCHIVE} {release.suite} main\n")
    settings = {
        "Dir::Etc::sourcelist": sources, "Dir::Etc::sourceparts": "/dev/null", "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null", "Dir::State": folder, "Dir::State::lists": folder / "lists",
        "Dir::State::status": "/dev/null", "Dir::State::extended_states": folder / "extended",
        "Dir::Cache": folder / "cache", "Dir::Cache::archives": folder / "cache/archives",
        "APT::Architecture": "amd64", "APT::Architectures": "amd64", "APT::Get::List-Cleanup": "false",
        "Acquire::Languages": "none", "Acquire::Retries": 3, "Debug::NoLocking": "true",
    }  # fmt: skip
    apt: list[str | Path] = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in settings.items())]
    problem = f"cannot fetch {release.package} of Debian {release.suite}"
    _run([*apt, "-oAPT::Update::Error-Mode=any", "update"], problem)
    _run([*apt, "--yes", "--download-only", "--no-install-recommends", "install", release.package], problem)
    return sorted((folder / "cache/archives").glob("*.deb"))


def _run(command: Sequence[str | Path], problem: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ServerError(f"{problem}: {command[0]} ended with {done.returncode}:\n{done.stderr}")


def prefetch() -> None:
    """Fetches every server, saying what it does."""
    for release in RELEASES:
        print(f"  {release.name}: {programs(release).folder}", flush=True)  # noqa: T201  # a setup step


if __name__ == "__main__":
    prefetch()
