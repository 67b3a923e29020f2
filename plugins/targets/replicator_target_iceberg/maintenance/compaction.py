"""Writes small files of a table together, and files again that lost many rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from replicator_sdk.discovery.maintenance import MaintenanceReport
from replicator_sdk.failpoint import failpoint, register
from replicator_target_iceberg.config import IcebergConfig
from replicator_target_iceberg.ddl.rewrite import live_rows
from replicator_target_iceberg.files.data_file import FULL, PAST, FileWriter, NewFile
from replicator_target_iceberg.files.live_files import LiveFile, LiveFiles
from replicator_target_iceberg.log.change import Change
from replicator_target_iceberg.maintenance.folding import History, level_of, name_of, overlapping
from replicator_target_iceberg.table import Attempt, TargetTable

register("iceberg.compaction.written")
_MANY_SMALL_FILES: Final = 8
_GONE_SHARE: Final = 0.2
_STEP_BYTES: Final = 64 << 20  # of files in one step, compressed: what waits for it waits a few seconds
_FOLDED_BYTES: Final = 16 << 20  # the same of a merge-on-read table
_PART_BYTES: Final = 1 << 20  # by which full files are full and not twice that


@dataclass(frozen=True, slots=True)
class _Plan:
    """Files to write again.

    Attributes:
        files: The files.
        is_all: Whether none is left for later.
        level: Of those that become of them.
    """

    files: list[LiveFile]
    is_all: bool
    level: int = 0


def _planned(files: LiveFiles, file_bytes: int, *, is_history: bool) -> _Plan:
    """Files that lost many rows, and small ones of a partition once there are several, partition by partition.

    Args:
        files: The table's.
        file_bytes: How large they are to be.
        is_history: Whether it is a merge-on-read table, of which all chosen rows are in memory at once. When there is nothing else to
            do, files that may hold the same keys are put together.
    """
    every = list(files)
    holed = [f for f in every if f.rows and f.gone > _GONE_SHARE * f.rows]
    known = {f.location for f in holed}
    small = [f for f in every if f.location not in known and _is_small(f, file_bytes)]
    together = Counter((f.is_past, f.partition) for f in small)  # files of several partitions are not put together
    many = [f for f in small if together[(f.is_past, f.partition)] >= _MANY_SMALL_FILES]
    wanted = sorted([*holed, *sorted(many, key=lambda f: str(f.partition))], key=lambda f: f.is_past)
    chosen: list[LiveFile] = []
    size = 0
    most = _FOLDED_BYTES if is_history else max(_STEP_BYTES, file_bytes)
    for file in wanted:
        # Two at least: one small file that is written again alone is as small as before.
        if chosen and (file.is_past != chosen[0].is_past or (len(chosen) > 1 and size + file.size > most)):
            break
        chosen.append(file)
        size += file.size
    others = (file for file in every if not _is_small(file, file_bytes))
    if is_history and not chosen and (meeting := overlapping(others, file_bytes)):
        return _Plan(meeting, False, level_of(meeting[0]) + 1)
    return _Plan(chosen, len(chosen) == len(wanted) and not (is_history and chosen))


def _written(change: Change, plan: _Plan, file_bytes: int, rows: Iterable[pa.Table]) -> list[NewFile]:
    """The new files with `rows`."""
    begin = PAST if plan.files[0].is_past else ""
    with FileWriter(change.storage, file_bytes, change.form, begin=begin, level=name_of(plan.level)) as writer:
        for part in rows:
            writer.add(part)
        return writer.finish()


def _folded(change: Change, plan: _Plan, files: LiveFiles, history: History | None) -> Iterator[pa.Table]:
    """The rows of the plan's files that stay."""
    layout = change.layout
    there = (rows.cast(layout.arrow) for f in plan.files for rows in live_rows(change.storage, f, list(layout.arrow)))
    if history is None:
        yield from there
        return
    others = files.changed((), [file.location for file in plan.files], {})
    rows = pa.concat_tables([layout.arrow.empty_table(), *there])
    stay = history.folding(change.storage, layout, others).fold(rows)
    del rows
    yield from history.ordered(stay, _PART_BYTES)


def _is_small(file: LiveFile, file_bytes: int) -> bool:
    return file.size * 4 < file_bytes and not _is_full(file)


def _is_full(file: LiveFile) -> bool:
    """Whether it was written with as many rows as files are to have: written again it would be the same."""
    return file.location.rpartition("/")[2].removeprefix(PAST).startswith(FULL)


def compact(table: TargetTable, attempt: Attempt, config: IcebergConfig) -> MaintenanceReport:
    """Write the live rows of some files into others, in one commit that changes no rows."""
    history = History.of(attempt.there)
    files = table.files(attempt, None if history is None else history.chosen_by)
    plan = _planned(files, config.target_file_bytes, is_history=history is not None)
    before = sum(file.size for file in files)
    if not plan.files:
        return MaintenanceReport(True, len(files), len(files), before, before)
    change = table.change(attempt)
    made = _written(change, plan, config.target_file_bytes, _folded(change, plan, files, history))
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
