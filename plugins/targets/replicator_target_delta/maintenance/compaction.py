"""Puts small files together and leaves deleted rows out, in one commit that changes no data.

Spark's OPTIMIZE does the same through the JVM's rows: on two cores a table of a million rows took it half a minute, in
which nothing could be applied. Executors take whole columns from file to file in a tenth of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replicator_sdk.discovery.maintenance import MaintenanceReport
from replicator_sdk.distributed.executors import run_on_executors
from replicator_sdk.failpoint import failpoint, register
from replicator_target_delta.apply.row_matching import live_rows
from replicator_target_delta.file_index.file_index import FileIndex, LiveFile, Part
from replicator_target_delta.files.data_file import write_data_file
from replicator_target_delta.files.live_files import DataFile
from replicator_target_delta.files.storage import Storage
from replicator_target_delta.table import TargetTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

register("delta.compaction.written")
_SMALL_BYTES: Final = 16 << 20
_PACK_BYTES: Final = 32 << 20  # compressed; one executor task holds the rows of one pack
_PACKS_PER_CORE: Final = 2  # in one step: what waits for it waits a few seconds
_MANY_SMALL_FILES: Final = 8
_GONE_SHARE: Final = 0.2


@dataclass(frozen=True, slots=True)
class _Pack:
    """Files whose rows become one file; picklable."""

    root: str
    files: tuple[tuple[str, dict[str, Any] | None], ...]
    schema: pa.Schema


def compact(table: TargetTable, spark: SparkSession) -> MaintenanceReport:
    """Do one step of compaction if the table is worth it: as many packs as the executors write in a few seconds.

    Raises:
        FencedError: When a newer run has written the table.
    """
    with table.lock:
        attempt = table.begin()
        here = attempt.state.files
        every = plan_packs(here)
        packs = every[: _PACKS_PER_CORE * spark.sparkContext.defaultParallelism]
        if attempt.progress is None or not packs:
            return _report(here)
        root, schema = table.log.storage.root, attempt.state.layout.physical
        tasks = [_Pack(root, tuple((f.location, f.vector) for f in pack), schema) for pack in packs]
        made = run_on_executors(spark, _write_pack, tasks)
        failpoint("delta.compaction.written")
        files = [DataFile(add) for adds in made for add in adds]
        gone = attempt.state.files.actions(file for pack in packs for file in pack)
        progress = table.ownership.taken_over(attempt.progress)
        table.commit(attempt, progress, add=files, remove=gone, data_change=False)
        return _report(here, gone, files, is_finished=len(packs) == len(every))


def _report(
    before: FileIndex, gone: Sequence[DataFile] = (), made: Sequence[DataFile] = (), *, is_finished: bool = True
) -> MaintenanceReport:
    """What a step did that put `made` in the place of `gone`."""
    size = sum(int(part.segment.sizes[part.live_rows].sum()) for part in before.parts)
    change = sum(int(file.add["size"]) for file in made) - sum(int(file.add["size"]) for file in gone)
    return MaintenanceReport(
        is_finished, len(before), len(before) - len(gone) + len(made), bytes_before=size, bytes_after=size + change
    )


def plan_packs(files: FileIndex) -> list[list[LiveFile]]:
    """Which files to put together: nothing as long as there are few small ones and none largely deleted."""
    small = files.chosen(lambda part: ~_is_holed(part) & (part.segment.sizes < _SMALL_BYTES))
    holed = files.chosen(_is_holed)
    if not holed and len(small) < _MANY_SMALL_FILES:
        return []
    packs: list[list[LiveFile]] = []
    size = _PACK_BYTES
    for file in [*small, *holed]:
        if size + file.size > _PACK_BYTES:
            packs.append([])
            size = 0
        packs[-1].append(file)
        size += file.size
    return [pack for pack in packs if len(pack) > 1 or pack[0] in holed]


def _is_holed(part: Part) -> npt.NDArray[np.bool_]:
    """Which files have lost so many rows that the others are written again."""
    rows = part.segment.rows
    return (rows > 0) & (part.segment.gone > _GONE_SHARE * rows)


def _write_pack(pack: _Pack) -> list[dict[str, Any]]:
    """One file with the live rows of the pack's files."""
    parts = [
        rows for location, vector in pack.files for rows in live_rows(pack.root, location, vector, list(pack.schema))
    ]
    rows = pa.concat_tables(parts) if parts else pack.schema.empty_table()
    return [write_data_file(Storage(pack.root), rows)] if rows.num_rows else []
