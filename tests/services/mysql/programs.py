"""MySQL's and MariaDB's server programs, unpacked from Debian's packages into the cache folder, each with its own libraries.

The programs run with the C library they were built for, through its own loader, so a server of Debian unstable runs on
Debian 12, and no account needs to be root.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.services.artifacts import cache_folder
from tests.services.debian import packages

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
    wanted = packages.Packages(release.package, release.suite, expires=release.expires, left_out=_NOT_RUN)
    return Programs(release, packages.unpacked(wanted, cache_folder() / "mysql" / release.name, unused=_NOT_READ))


def prefetch() -> None:
    """Fetches every server, saying what it does."""
    for release in RELEASES:
        print(f"  {release.name}: {programs(release).folder}", flush=True)  # noqa: T201  # a setup step


if __name__ == "__main__":
    prefetch()
