"""Which files of this machine a pipeline may not use in a process that a service starts: the service's own.

The service looks at settings when they are stored. Here they are looked at again when they are used: macros have their
values, links lead where they lead, and relative paths begin at the folder of the process.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

SERVICE_FILES = "REPLICATOR_SERVICE_FILES"
"""The environment variable in which the service says so: JSON, `{"own": [PATH…], "allowed": [FOLDER…] or null}`."""
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?P<slashes>/*)")
_LOCAL = frozenset({"file", "local"})


def service_files(own: Iterable[Path], allowed: Iterable[Path] | None) -> str:
    """The value of `SERVICE_FILES`.

    Args:
        own: Files and folders of the service.
        allowed: The folders below which pipelines may have files; None: everywhere but in its own.
    """
    return json.dumps(
        {"own": [str(path) for path in own], "allowed": None if allowed is None else [str(path) for path in allowed]}
    )


def refused_files(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """The JSON path of each text in `value` that names a file which may not be used, and why; none where no service says so.

    Args:
        value: A JSON value, macros resolved.
        path: Its JSON path.
    """
    said = os.environ.get(SERVICE_FILES)
    if said:
        rules = json.loads(said)
        yield from _refused(value, path, [Path(own) for own in rules["own"]], rules["allowed"])


def local_path(text: str) -> Path | None:
    """The file of this machine that a text names, links followed; None when it names none.

    A relative one counts where there is such a file: any name of a host or of a table could be one.
    """
    if "\0" in text:
        return None
    text = text.rpartition("::")[2].strip()  # fsspec's chains end with the file
    found = _SCHEME.match(text)
    if found and found["scheme"].lower() in _LOCAL:
        text = ("/" if found["slashes"] else "") + text[found.end() :]
    elif found and found["slashes"]:
        return None
    if text.startswith("~"):
        text = os.path.expanduser(text)  # noqa: PTH111 - raises nothing for a user that there is not
    place = Path(text)
    try:
        # A name of a host or a table without a slash may be one of a folder here, too.
        is_named = place.is_absolute()
        place = place.resolve()  # SQLite leaves `x/..` out where there is no x, too
        return place if is_named or (place.exists() if "/" in text else place.is_file()) else None
    except (OSError, RuntimeError):  # a name that is too long, links in a circle
        return None


def _refused(value: Any, path: str, own: list[Path], allowed: list[str] | None) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        if reason := _reason(value, own, allowed):
            yield path, reason
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _refused(inner, f"{path}.{key}", own, allowed)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _refused(inner, f"{path}[{index}]", own, allowed)


def _reason(text: str, own: list[Path], allowed: list[str] | None) -> str:
    place = local_path(text)
    if place is None:
        return ""
    if any(place.is_relative_to(one) for one in own):
        return "this is a file of the service itself"
    if allowed is not None and not any(place.is_relative_to(one) for one in allowed):
        return "files of this machine are allowed below some folders only"
    return ""
