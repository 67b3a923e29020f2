"""Files in a Delta table's folder that no commit names: what a kill between writing and committing leaves."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.crash.patch import Patch

if TYPE_CHECKING:
    from replicator_target_delta.files.live_files import DataFile


def adopt_orphans(patch: Patch) -> None:
    """A Delta table is every file in its folder: files that no commit names belong to it."""
    from replicator_target_delta.table import TargetTable

    true_commit = TargetTable.commit

    def commit(self: TargetTable, attempt: Any, progress: Any, *, add: Any = (), **rest: Any) -> None:
        own = list(add)
        orphans = _orphans(Path(self.log.path), {file.path for file in own})
        true_commit(self, attempt, progress, add=[*own, *orphans], **rest)

    patch.setattr(TargetTable, "commit", commit)


def _orphans(folder: Path, own: Collection[str]) -> list[DataFile]:
    from replicator_target_delta.files.live_files import DataFile

    found = []
    for path in unnamed_files(folder):
        rows = _rows(path)
        if path.name not in own and rows:
            add = {"path": path.name, "partitionValues": {}, "size": path.stat().st_size, "modificationTime": 0}
            found.append(DataFile({**add, "dataChange": True, "stats": json.dumps({"numRecords": rows})}))
    return found


def _rows(path: Path) -> int:
    """How many rows a data file has; 0 when it was not written to its end."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return int(pq.read_metadata(path).num_rows)
    except pa.ArrowInvalid:
        return 0


def unnamed_files(folder: Path) -> list[Path]:
    """The data files of a table's folder that no commit of its log names."""
    log = "".join(path.read_text() for path in (folder / "_delta_log").glob("*.json"))
    return [path for path in folder.glob("*.parquet") if path.name not in log]
