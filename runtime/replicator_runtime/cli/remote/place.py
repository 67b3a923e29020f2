"""Which pipeline of a service a command is about."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from replicator_sdk.errors import NeedsUserError

_NO_NAME = "RPL-1585"


@dataclass(frozen=True, slots=True)
class Place:
    """Name and namespace of a pipeline."""

    name: str
    namespace: str


def place_of(name: str, namespace: str = "default") -> Place:
    """The place of a pipeline that was given by its name or by its pipeline JSON, which names its namespace.

    Of the file only these two are read; macros stay as they are.

    Raises:
        NeedsUserError: RPL-1585 when the file names none; RPL-7101 when one is not allowed.
    """
    from replicator_state import check_identifier

    if name.endswith(".json") or Path(name).is_file():
        document = document_of(Path(name))
        name, namespace = str(document.get("name", "")), str(document.get("namespace", "default"))
    return Place(check_identifier(name, "name"), check_identifier(namespace, "namespace"))


def document_of(file: Path) -> dict[str, object]:
    """The pipeline JSON of a file, as it is written.

    Raises:
        NeedsUserError: RPL-1585 when it cannot be read, or is no JSON object.
    """
    try:
        found = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        found = None
    if isinstance(found, dict):
        return found
    raise NeedsUserError(
        f"{file} cannot be read as a pipeline JSON",
        code=_NO_NAME,
        hint="give the name of a pipeline that the service has: `replicator list` shows them",
    )
