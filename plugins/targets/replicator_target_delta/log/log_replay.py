"""What a table's log adds up to, read from its files without a Spark job: seconds less for each table at a start.

Spark's Delta library says which files make up a version; they are added up as the protocol's "Action Reconciliation" says
(https://github.com/delta-io/delta/blob/master/PROTOCOL.md#action-reconciliation).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from replicator_target_delta.file_index.file_index import FileIndex, LiveFile
from replicator_target_delta.files.live_files import DataFile
from replicator_target_delta.log.checkpoint import read_checkpoint

if TYPE_CHECKING:
    from replicator_target_delta.files.storage import Storage

_COMMIT: Final = re.compile(r".*/_delta_log/(\d{20}\.json)")
_CHECKPOINT: Final = re.compile(r".*/_delta_log/(\d{20}\.checkpoint\.parquet)")
_AT_ONCE: Final = 4096


@dataclass(slots=True)
class Content:
    """A version's content.

    Attributes:
        files: Its files.
        domains: The configuration of each metadata domain.
    """

    files: FileIndex = field(default_factory=FileIndex)
    domains: dict[str, str] = field(default_factory=dict)


def replay(storage: Storage, checkpoints: Sequence[str], commits: Sequence[str]) -> Content | None:
    """The content of the version that these files of the log make up.

    Args:
        storage: The table's files.
        checkpoints: The locations of the newest checkpoint's files.
        commits: The locations of the commits after it, in order.

    Returns:
        None when the log has a form that is not read here: a checkpoint in parts or with sidecars, or without its
        statistics as text; commits put together or staged by a catalogue; or a file that is gone by now.
    """
    names = log_names(checkpoints, commits)
    if names is None:
        return None
    log = _Log()
    try:
        for name in names[0]:
            content = read_checkpoint(storage, name)
            if content is None:
                return None
            log = _Log(*content)
        for name in names[1]:
            log.take(actions_of_commit(storage, name))
    except FileNotFoundError:
        return None
    return log.content()


def log_names(checkpoints: Sequence[str], commits: Sequence[str]) -> tuple[list[str], list[str]] | None:
    """The names of these files in the log's folder; None when a checkpoint is in parts, or one has another form of name."""
    bases = [_CHECKPOINT.fullmatch(name) for name in checkpoints]
    files = [_COMMIT.fullmatch(name) for name in commits]
    if len(bases) > 1 or not all([*files, *bases]):
        return None
    return [base[1] for base in bases if base], [file[1] for file in files if file]


class _Log:
    """Actions, reconciled. Entries of one file with different deletion vectors count as two until they are put together."""

    def __init__(self, files: FileIndex | None = None, domains: dict[str, str] | None = None) -> None:
        self._files = files or FileIndex()
        self._domains = domains or {}
        self._adds: dict[_Identity, dict[str, Any]] = {}
        self._removed: set[_Identity] = set()

    def take(self, actions: Iterable[dict[str, Any]]) -> None:
        """The actions of the next version; their order among themselves says nothing."""
        added = []
        for action in actions:
            if "add" in action:
                added.append(action["add"])
            elif "remove" in action:
                self._remove(_identity(action["remove"]))
            elif "domainMetadata" in action:
                domain = action["domainMetadata"]
                self._domains.pop(domain["domain"], None)
                if not domain["removed"]:
                    self._domains[domain["domain"]] = domain["configuration"]
        for add in added:  # what comes last counts where two entries have one path
            self._adds.pop(_identity(add), None)
            self._adds[_identity(add)] = add
        if len(self._adds) + len(self._removed) > _AT_ONCE:
            self._put_together()

    def _remove(self, identity: _Identity) -> None:
        self._adds.pop(identity, None)
        self._removed.add(identity)

    def _put_together(self) -> None:
        """Have the index take what came, so that only so much of the log is in memory as Python objects."""
        paths = {path for path, _ in (*self._adds, *self._removed)}
        before = self._files.by_path(paths)
        by_path = {add["path"]: DataFile(add) for add in self._adds.values()}
        gone = [
            DataFile({"path": file.path}, file.place)
            for file in before.values()
            if file.path in by_path or _identity_of(file) in self._removed
        ]
        self._files = self._files.changed(list(by_path.values()), gone)
        self._adds, self._removed = {}, set()

    def content(self) -> Content:
        """What is there in the end."""
        self._put_together()
        return Content(self._files, self._domains)


_Identity = tuple[str, str]


def _identity(file: dict[str, Any]) -> _Identity:
    return file["path"], _vector_identity(file.get("deletionVector"))


def _identity_of(file: LiveFile) -> _Identity:
    return file.path, _vector_identity(file.vector)


def _vector_identity(vector: dict[str, Any] | None) -> str:
    return f"{vector['storageType']}{vector['pathOrInlineDv']}@{vector.get('offset')}" if vector else ""


def actions_of_commit(storage: Storage, name: str) -> Iterator[dict[str, Any]]:
    """The actions of the commit `name`, a file in the log's folder."""
    with storage.open_input(f"_delta_log/{name}") as file:
        for line in file.read().splitlines():
            if line:
                yield json.loads(line)


def domain_in_commit(storage: Storage, name: str, domain: str) -> str | None:
    """What the commit `name` stores in a metadata domain; None when it does not store it."""
    with storage.open_input(f"_delta_log/{name}") as file:
        for line in file.read().splitlines():
            if b'"domainMetadata"' in line:
                action = json.loads(line).get("domainMetadata")
                if action is not None and action["domain"] == domain:
                    return None if action["removed"] else str(action["configuration"])
    return None
