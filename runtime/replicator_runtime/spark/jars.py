"""From Maven coordinates to local files, so that a session starts without asking a repository."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path

from replicator_sdk.errors import ConfigError, NeedsUserError


def cache_folder() -> Path:
    """Where downloaded files are stored: `$XDG_CACHE_HOME/replicator`, by default `~/.cache/replicator`; may not exist.

    Raises:
        NeedsUserError: RPL-7215 when neither the variable nor the account has a folder.
    """
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError as error:  # of a number that the user database does not have, without HOME
        raise _refused("this account has no home folder, and XDG_CACHE_HOME is not set") from error
    return base / "replicator"


def local_jars(packages: Iterable[str]) -> list[Path] | None:
    """The files of all `packages` (`group:name:version`), or None when one of them is not in the cache.

    Looked for in `jars/` and in `maven/`, the layout of a Maven repository. Dependencies are not resolved: a
    plugin that declares a package also declares the jars it needs besides Spark's own.

    Raises:
        ConfigError: RPL-7205 when a package is no Maven coordinate.
        NeedsUserError: RPL-7215 when this account may not read the cache, or a file of it.
    """
    found = [_find(package) for package in packages]
    return None if None in found else [path for path in found if path is not None]


def keep_jars(packages: Iterable[str], settings: Mapping[str, str]) -> None:
    """Keep the jars of `packages` that Spark has resolved for a session, so that the next start finds them and asks for nothing.

    Each file appears whole or not at all. A file that cannot be kept is resolved again by the next start.

    Args:
        packages: What plugins declare, and no others: what a user's package depends on is known to the resolver alone.
        settings: Of the session.
    """
    for package in packages if "spark.jars.packages" in settings else ():
        group, name, version = package.split(":")
        found, kept = Path(settings["spark.jars.ivy"], "jars", f"{group}_{name}-{version}.jar"), cache_folder() / "jars"
        partial = kept / f".partial-{uuid.uuid4().hex[:8]}"
        with contextlib.suppress(OSError):
            kept.mkdir(parents=True, exist_ok=True)
            try:
                shutil.copyfile(found, partial)
                partial.replace(kept / f"{name}-{version}.jar")
            finally:
                partial.unlink(missing_ok=True)


def require_room_for(folder: Path) -> None:
    """Ask whether this account may write files into `folder`, which may not exist; Spark would say it in Java's words, and be started again.

    Raises:
        NeedsUserError: RPL-7215 when it may not.
    """
    there = folder
    while not os.path.lexists(there) and there != there.parent:
        there = there.parent
    if not (os.path.isdir(there) and os.access(there, os.W_OK | os.X_OK)):  # noqa: PTH112 - raises nothing
        raise _refused(f"what is not there yet goes into {folder}, and this account may not write {there}")


def _find(package: str) -> Path | None:
    parts = package.split(":")
    if len(parts) != 3 or not all(part and "/" not in part and ".." not in part for part in parts):
        raise ConfigError(
            f"{package!r} is no Maven coordinate", code="RPL-7205", path="spark.conf", hint="write group:name:version"
        )
    group, name, version = parts
    jar = f"{name}-{version}.jar"
    places = (cache_folder() / "jars" / jar, cache_folder() / "maven" / group.replace(".", "/") / name / version / jar)
    return next((place for place in places if _is_readable(place)), None)


def _is_readable(jar: Path) -> bool:
    """Whether the file is there.

    Raises:
        NeedsUserError: RPL-7215 when this account may not look, or may not read it: to download what is there would hide that.
    """
    try:
        if not stat.S_ISREG(jar.stat().st_mode):
            return False
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise _refused(f"this account cannot look for {jar}: {error.strerror}") from error
    if not os.access(jar, os.R_OK):
        raise _refused(f"this account may not read {jar}")
    return True


def _refused(what: str) -> NeedsUserError:
    return NeedsUserError(
        f"the cache of jars cannot be used, since {what}",
        code="RPL-7215",
        hint="have the variable XDG_CACHE_HOME name a folder that the account of the run may read and write; or give it the right to"
        " read this one, where all jars are there",
    )
