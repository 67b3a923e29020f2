"""The names of files that a table's log has removed lately: a reader of an older version still needs them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow.parquet as pq

from replicator_target_delta.files.deletion_vector import vector_file
from replicator_target_delta.log.log_replay import actions_of_commit, log_names

if TYPE_CHECKING:
    from replicator_target_delta.files.storage import Storage

_REMOVED: Final = ("remove.path", "remove.deletionTimestamp", "remove.deletionVector")


def removed_names(
    storage: Storage, checkpoints: Sequence[str], commits: Sequence[str], since: int
) -> frozenset[str] | None:
    """The names, without folders, of files and deletion vectors removed at `since` or later.

    A name is unique, so that a file is known by it in whichever form the log writes its path.

    Args:
        storage: The table's files.
        checkpoints: The locations of the newest checkpoint's files.
        commits: The locations of the commits after it.
        since: In milliseconds since 1970.

    Returns:
        None when the log has a form that is not read here, as `replay` says.
    """
    names = log_names(checkpoints, commits)
    if names is None:
        return None
    found: set[str] = set()
    try:
        for name in names[0]:
            removed = _of_checkpoint(storage, name)
            if removed is None:
                return None
            found |= _late_names(removed, since)
        for name in names[1]:
            actions = actions_of_commit(storage, name)
            found |= _late_names((action["remove"] for action in actions if "remove" in action), since)
    except FileNotFoundError:
        return None
    return frozenset(found)


def names_of(path: str, descriptor: dict[str, Any] | None) -> set[str]:
    """The names of a file in the log, as written and decoded, and of the file of its deletion vector."""
    vector = vector_file(descriptor)
    paths = [path, unquote(path), *([vector] if vector is not None else [])]
    return {path.rpartition("/")[2] for path in paths}


def _late_names(removed: Iterable[dict[str, Any]], since: int) -> set[str]:
    """The names of those removed at `since` or later, or at a time that is not known."""
    late = (file for file in removed if (file.get("deletionTimestamp") or since) >= since)
    return {name for file in late for name in names_of(file["path"], file.get("deletionVector"))}


def _of_checkpoint(storage: Storage, name: str) -> list[dict[str, Any]] | None:
    with storage.open_input(f"_delta_log/{name}") as file:
        found = pq.ParquetFile(file)
        columns = [column.path for column in map(found.schema.column, range(len(found.schema.names)))]
        wanted = [path for path in columns if path.startswith(_REMOVED)]
        if "sidecar" in found.schema_arrow.names or "remove.path" not in wanted:
            return None
        removed: list[dict[str, Any]] = found.read(columns=wanted)["remove"].drop_null().to_pylist()
    return removed
