"""Looks for keys in a table: prunes files, groups them, and matches in driver threads or on executors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from replicator_sdk.distributed.executors import is_local, run_large_work_on_executors, run_on_threads
from replicator_target_delta.apply.pruning import candidate_files
from replicator_target_delta.apply.row_matching import FileGroup, FileMatch, Sought, match_group
from replicator_target_delta.file_index.file_index import LiveFile
from replicator_target_delta.files.storage import Storage
from replicator_target_delta.log.table_state import State

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_GROUP_ROWS: Final = 500_000
_GROUP_FILES: Final = 64
_DRIVER_ROWS: Final = 5_000_000  # fewer candidate rows than this are read by the driver, also on a cluster


@dataclass(frozen=True, slots=True)
class Place:
    """Where and how an apply works.

    Attributes:
        spark: The session, for the executors; None on one of them, where the work is done in this process.
        state: The table's version it starts from.
        storage: The table's files.
        target_bytes: How large new files are.
        soft_deletes: Whether deleted rows are kept.
    """

    spark: SparkSession | None
    state: State
    storage: Storage
    target_bytes: int
    soft_deletes: bool


def find(place: Place, sought: Sought) -> Iterator[tuple[LiveFile, FileMatch]]:
    """The rows of the table that hold sought keys, file by file, in no order."""
    if sought.keys.num_rows == 0:
        return
    files = candidate_files(place.state.files, sought.keys, sought.only_null)
    groups = list(_groups(files))
    requests = [FileGroup(place.storage.root, tuple(f.location for f in g), tuple(f.vector for f in g)) for g in groups]
    known = sum(max(f.rows, 0) for f in files)
    numbered = list(enumerate(requests))
    work = partial(_match_numbered, sought=sought)
    results: Iterable[tuple[int, list[FileMatch]]]
    if place.spark is None or is_local(place.spark) or known < _DRIVER_ROWS:
        results = run_on_threads(work, numbered)
    else:
        results = run_large_work_on_executors(place.spark, work, numbered)
    for number, matches in results:
        for match in matches:
            yield groups[number][match.index], match


def _match_numbered(task: tuple[int, FileGroup], *, sought: Sought) -> tuple[int, list[FileMatch]]:
    return task[0], match_group(task[1], sought)


def _groups(files: list[LiveFile]) -> Iterator[list[LiveFile]]:
    group: list[LiveFile] = []
    rows = 0
    for file in files:
        group.append(file)
        rows += file.rows if file.rows >= 0 else _GROUP_ROWS
        if rows >= _GROUP_ROWS or len(group) >= _GROUP_FILES:
            yield group
            group, rows = [], 0
    if group:
        yield group
