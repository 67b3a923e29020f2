"""What a pipeline's settings may have this machine reach: databases in allowed networks, no metadata server, and not our own files.

Why: docs/decisions/0071-who-may-have-the-service-connect.md, 0099-addresses-are-looked-at-where-they-are-connected-to.md
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replicator_runtime.networks_of_service import refusal_of, texts_of
from replicator_runtime.service.problems import FieldProblem, ProblemError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from replicator_runtime.service.settings import ServiceSettings

BEYOND_REACH = "RPL-1556"
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://")


def check_reach(settings: ServiceSettings, config: Mapping[str, Any]) -> None:
    """Do nothing when each setting names what a pipeline may reach.

    A setting is looked at by its value, so that those of plugins unknown here are, too. Names are not resolved: the processes that
    connect look at what they lead to.

    Raises:
        ProblemError: 422 RPL-1556 with the place of each that may not be.
    """
    errors = [
        FieldProblem(pointer=_pointer(keys), message=reason)
        for keys, text in texts_of(config)
        if (reason := _refused(settings, text))
    ]
    if errors:
        raise ProblemError(
            422,
            BEYOND_REACH,
            "the settings name what a pipeline may not reach from this service",
            hint="name hosts whose addresses the service allows, and files outside of the service's folder",
            errors=errors,
        )


def _refused(settings: ServiceSettings, text: str) -> str:
    """Why a value is refused; empty when it is not."""
    if reason := refusal_of(settings.networks, text):
        return reason
    path = _local_path(text)
    if path is None:
        return ""
    if any(_is_below(path, own) for own in own_files(settings)):
        return "this is a file of the service itself"
    if settings.local_paths is not None and not any(_is_below(path, root) for root in settings.local_paths):
        return "files of this machine are allowed below some folders only"
    return ""


def _local_path(text: str) -> Path | None:
    """The file of this machine that a value names, links followed; None when it names none."""
    found = _SCHEME.match(text)
    if found and found["scheme"].lower() not in {"file", "local"}:
        return None
    named = text[found.end() :] if found else text
    return Path(named).resolve() if named.startswith("/") and "\0" not in named else None


def own_files(settings: ServiceSettings) -> Iterator[Path]:
    """The files and folders of the service itself, links followed."""
    yield settings.work_folder.resolve()
    if settings.store.startswith("sqlite:///"):
        database = Path(settings.store.removeprefix("sqlite:///").partition("?")[0]).resolve()
        yield database
        yield from (Path(f"{database}-{of}") for of in ("wal", "shm", "journal"))


def _is_below(path: Path, folder: Path) -> bool:
    return path.is_relative_to(folder.resolve())


def _pointer(keys: tuple[Any, ...]) -> str:
    return "".join(f"/{str(key).replace('~', '~0').replace('/', '~1')}" for key in keys)
