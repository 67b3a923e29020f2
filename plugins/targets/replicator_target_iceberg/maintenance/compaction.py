"""Writes small files of a table together, and files again that lost many rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from replicator_sdk.discovery.maintenance import MaintenanceReport
from replicator_sdk.failpoint import failpoint, register
from replicator_target_iceberg.config import IcebergConfig
from replicator_target_iceberg.ddl.rewrite import live_rows
from replicator_target_iceberg.files.data_file import FULL, FileWriter
from replicator_target_iceberg.files.live_files import LiveFile, LiveFiles
from replicator_target_iceberg.table import Attempt, TargetTable

register("iceberg.compaction.written")
_MANY_SMALL_FILES: Final = 8
_GONE_SHARE: Final = 0.2
_STEP_BYTES: Final = 64 << 20  # of files in one step, compressed: what waits for it waits a few seconds


@dataclass(frozen=True, slots=True)
class _Plan:
    """Files to write again, and whether others are left for later."""

    files: list[LiveFile]
    is_all: bool


def _planned(files: LiveFiles, file_bytes: int) -> _Plan:
    """Files that lost many rows, and small ones of a partition once there are several, partition by partition."""
    every = list(files)
    holed = [f for f in every if f.rows and f.gone > _GONE_SHARE * f.rows]
    known = {f.location for f in holed}
    small = [f for f in every if f.size * 4 < file_bytes and f.location not in known and not _is_full(f)]
    together = Counter(f.partition for f in small)  # files of several partitions are not put together
    many = [f for f in small if together[f.partition] >= _MANY_SMALL_FILES]
    wanted = [*holed, *sorted(many, key=lambda f: str(f.partition))]
    chosen: list[LiveFile] = []
    size = 0
    for file in wanted:
        if chosen and size + file.size > max(_STEP_BYTES, file_bytes):
            break
        chosen.append(file)
        size += file.size
    return _Plan(chosen, len(chosen) == len(wanted))


def _is_full(file: LiveFile) -> bool:
    """Whether it was written with as many rows as files are to have: written again it would be the same."""
    return file.location.rpartition("/")[2].startswith(FULL)


def compact(table: TargetTable, attempt: Attempt, config: IcebergConfig) -> MaintenanceReport:
    """Write the live rows of some files into others, in one commit that changes no rows."""
    files = table.files(attempt, None)
    plan = _planned(files, config.target_file_bytes)
    before = sum(file.size for file in files)
    if not plan.files:
        return MaintenanceReport(True, len(files), len(files), before, before)
    change = table.change(attempt)
    storage = change.storage
    with FileWriter(storage, config.target_file_bytes, change.form) as writer:
        for file in plan.files:
            for rows in live_rows(storage, file, list(change.layout.arrow)):
                writer.add(rows.cast(change.layout.arrow))
        made = writer.finish()
    failpoint("iceberg.compaction.written")
    assert attempt.progress is not None
    deletes = [ref for file in plan.files for ref in file.deletes if ref.data_file]
    table.commit(
        attempt,
        change,
        table.ownership.taken_over(attempt.progress),
        lambda: change.rewrite(made, plan.files, deletes),
        written=[file.location for file in made],
    )
    size = before - sum(file.size for file in plan.files) + sum(file.size for file in made)
    return MaintenanceReport(plan.is_all, len(files), len(files) - len(plan.files) + len(made), before, size)
