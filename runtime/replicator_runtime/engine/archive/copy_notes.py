"""Notes of copies that are under way, so that rows of one that is given up do not stay in the archive for ever."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import structlog

from replicator_runtime.engine.archive.names import COPIES, note_of
from replicator_sdk.errors import FencedError, ReplicatorError

if TYPE_CHECKING:
    from collections.abc import Callable

    from replicator_runtime.engine.archive.copies import CopyFiles
    from replicator_runtime.engine.archive.manifests import Manifests
    from replicator_state import ArchiveFolder

log = structlog.get_logger()


def note_copy(archive: ArchiveFolder, files: CopyFiles, number: int) -> None:
    """Note a copy before its first row is archived; durable when this returns. The first note of a copy stays.

    Args:
        archive: The archive.
        files: The copy's.
        number: Of the next manifest: none before it names the copy.
    """
    name = note_of(files.schema.table, files.copy)
    try:
        archive.read(name)
    except FileNotFoundError:
        note = {"copy": files.copy, "folder": files.folder, "number": number}
        archive.replace(name, json.dumps(note).encode())


def forget_copy(archive: ArchiveFolder, files: CopyFiles, *, is_listed: bool) -> None:
    """Remove the note of a copy that has ended, and its rows unless a manifest names them."""
    if not is_listed:
        archive.clear(files.folder)
    archive.remove(note_of(files.schema.table, files.copy))


def remove_given_up(archive: ArchiveFolder, manifests: Manifests, current: Callable[[], set[str]]) -> None:
    """Delete the rows of noted copies that nothing goes on with; what fails is done by a later attempt.

    Args:
        archive: The archive.
        manifests: Its manifests, loaded.
        current: Gives the names of the copies that go on, or will; asked once the notes were listed, since more may begin.
    """
    try:
        names = archive.names(COPIES)
        going_on = current() if names else set()
        for name in names:
            _remove(archive, manifests, f"{COPIES}/{name}", going_on)
    except FencedError:
        raise
    except ReplicatorError as error:  # what is too much harms nothing
        log.warning("archive.copies_not_removed", code=error.code, error=error.message)


def _remove(archive: ArchiveFolder, manifests: Manifests, name: str, going_on: set[str]) -> None:
    if not name.endswith(".json"):
        archive.remove(name)  # a run was killed while it wrote a note
        return
    try:
        note = json.loads(archive.read(name))
    except FileNotFoundError:
        return  # it has ended meanwhile
    if note["copy"] in going_on:
        return
    if not manifests.names_copy(note["copy"], note["number"]):
        archive.clear(note["folder"])
    archive.remove(name)
