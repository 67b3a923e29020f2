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

import pyarrow.parquet as pq

if TYPE_CHECKING:
    from replicator_target_delta.files.storage import Storage

_COMMIT: Final = re.compile(r".*/_delta_log/(\d{20}\.json)")
_CHECKPOINT: Final = re.compile(r".*/_delta_log/(\d{20}\.checkpoint\.parquet)")
_KEPT: Final = ("add", "domainMetadata")


@dataclass(slots=True)
class Content:
    """A version's content.

    Attributes:
        adds: The `add` actions of its files, by path; fields without a value are left out.
        domains: The configuration of each metadata domain.
    """

    adds: dict[str, dict[str, Any]] = field(default_factory=dict)
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
    files = [_COMMIT.fullmatch(name) for name in commits]
    bases = [_CHECKPOINT.fullmatch(name) for name in checkpoints]
    if len(bases) > 1 or not all([*files, *bases]):
        return None
    log = _Log()
    try:
        for base in filter(None, bases):
            actions = _of_checkpoint(storage, base[1])
            if actions is None:
                return None
            log.take(actions)
        for file in filter(None, files):
            log.take(_of_commit(storage, file[1]))
    except FileNotFoundError:
        return None
    return log.content()


class _Log:
    """Actions, reconciled. Entries of one file with different deletion vectors count as two until the end."""

    def __init__(self) -> None:
        self._adds: dict[tuple[str, str], dict[str, Any]] = {}
        self._domains: dict[str, str] = {}

    def take(self, actions: Iterable[dict[str, Any]]) -> None:
        """The actions of the next version; their order among themselves says nothing."""
        added = []
        for action in actions:
            if "add" in action:
                added.append(action["add"])
            elif "remove" in action:
                self._adds.pop(_identity(action["remove"]), None)
            elif "domainMetadata" in action:
                domain = action["domainMetadata"]
                self._domains.pop(domain["domain"], None)
                if not domain["removed"]:
                    self._domains[domain["domain"]] = domain["configuration"]
        self._adds |= {_identity(add): add for add in added}

    def content(self) -> Content:
        """What is there in the end."""
        return Content({add["path"]: add for add in self._adds.values()}, self._domains)


def _identity(file: dict[str, Any]) -> tuple[str, str]:
    vector = file.get("deletionVector")
    if not vector:
        return file["path"], ""
    return file["path"], f"{vector['storageType']}{vector['pathOrInlineDv']}@{vector.get('offset')}"


def _of_commit(storage: Storage, name: str) -> Iterator[dict[str, Any]]:
    with storage.open_input(f"_delta_log/{name}") as file:
        for line in file.read().splitlines():
            if line:
                yield json.loads(line)


def _of_checkpoint(storage: Storage, name: str) -> list[dict[str, Any]] | None:
    with storage.open_input(f"_delta_log/{name}") as file:
        found = pq.ParquetFile(file)
        names = set(found.schema_arrow.names)
        if "sidecar" in names or not names.issuperset(_KEPT):
            return None
        columns = [column.path for column in map(found.schema.column, range(len(found.schema.names)))]
        wanted = [c for c in columns if c.startswith(_KEPT) and not c.startswith("add.stats_parsed")]
        if "add.stats" not in wanted:
            return None
        rows = found.read(columns=wanted)
    return [
        {kind: _with_values(value)}
        for kind in _KEPT
        for value in rows[kind].drop_null().to_pylist(maps_as_pydicts="strict")
    ]


def _with_values(action: dict[str, Any]) -> dict[str, Any]:
    """Without what has no value, as commits write it."""
    return {k: _with_values(v) if k == "deletionVector" else v for k, v in action.items() if v is not None}
