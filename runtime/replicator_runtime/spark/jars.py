"""From Maven coordinates to local files, so that a session starts without asking a repository."""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path

from replicator_sdk.errors import ConfigError


def cache_folder() -> Path:
    """Where downloaded files are stored: `$XDG_CACHE_HOME/replicator`, by default `~/.cache/replicator`; may not exist."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "replicator"


def local_jars(packages: Iterable[str]) -> list[Path] | None:
    """The files of all `packages` (`group:name:version`), or None when one of them is not in the cache.

    Looked for in `jars/` and in `maven/`, the layout of a Maven repository. Dependencies are not resolved: a
    plugin that declares a package also declares the jars it needs besides Spark's own.

    Raises:
        ConfigError: RPL-7205 when a package is no Maven coordinate.
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


def _find(package: str) -> Path | None:
    parts = package.split(":")
    if len(parts) != 3 or not all(part and "/" not in part and ".." not in part for part in parts):
        raise ConfigError(
            f"{package!r} is no Maven coordinate", code="RPL-7205", path="spark.conf", hint="write group:name:version"
        )
    group, name, version = parts
    jar = f"{name}-{version}.jar"
    places = (cache_folder() / "jars" / jar, cache_folder() / "maven" / group.replace(".", "/") / name / version / jar)
    return next((place for place in places if place.is_file()), None)
