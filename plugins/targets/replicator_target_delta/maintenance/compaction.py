"""Puts small files together, leaves deleted rows out and puts rows in the order of their keys, in one commit that changes no data.

Of a merge-on-read table it also leaves rows out that no reader sees (`merge_on_read/folding.py`).

Spark's OPTIMIZE does the same through the JVM's rows: on two cores a table of a million rows took it half a minute, in
which nothing could be applied. Executors take whole columns from file to file in a tenth of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.discovery.maintenance import MaintenanceReport
from replicator_sdk.distributed.executors import run_on_executors
from replicator_sdk.failpoint import failpoint, register
from replicator_sdk.merge_on_read.folding import Folding
from replicator_target_delta.apply.pruning import may_have_null
from replicator_target_delta.apply.row_matching import live_rows
from replicator_target_delta.file_index.actions import LEVEL_TAG
from replicator_target_delta.file_index.file_index import FileIndex, LiveFile, Part
from replicator_target_delta.file_index.sort_words import is_ordered
from replicator_target_delta.files.data_file import write_data_file
from replicator_target_delta.files.live_files import DataFile
from replicator_target_delta.files.storage import Storage
from replicator_target_delta.log.table_state import State
from replicator_target_delta.maintenance.clustering import TOGETHER, Ranges, key_ranges, plan_merges
from replicator_target_delta.merge_on_read.folding import folding_of, read_key
from replicator_target_delta.table import TargetTable
from replicator_target_delta.versions.version_columns import end_column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

register("delta.compaction.written")
_PACK_BYTES: Final = 32 << 20  # compressed; one executor task holds the rows of one pack, or of a few
_PACKS_PER_CORE: Final = 2  # in one step: what waits for it waits a few seconds
_MANY_SMALL_FILES: Final = 8
_GONE_SHARE: Final = 0.2
Among = Callable[[Part], npt.NDArray[np.bool_]]


@dataclass(frozen=True, slots=True)
class Pack:
    """Files whose rows are written together.

    Attributes:
        files: The files.
        pieces: How many files become of them.
        level: Of these.
    """

    files: list[LiveFile]
    pieces: int
    level: int


@dataclass(frozen=True, slots=True)
class PackWriter:
    """Writes a pack's rows on an executor; picklable."""

    root: str
    files: tuple[tuple[str, dict[str, Any] | None], ...]
    schema: pa.Schema
    key: tuple[str, ...]
    pieces: int
    level: int
    folding: Folding | None = None

    def write(self) -> list[dict[str, Any]]:
        """The contents of the `add` actions of new files with the live rows of the pack's files; all its rows are in memory."""
        fields = list(self.schema)
        parts = [rows for location, vector in self.files for rows in live_rows(self.root, location, vector, fields)]
        if not any(part.num_rows for part in parts):
            return []
        rows = pa.concat_tables(parts)
        stay = rows if self.folding is None else self.folding.fold(rows)
        if not stay.num_rows:
            return []
        pieces = -(-self.pieces * stay.num_rows // rows.num_rows)
        del rows, parts
        made = [write_data_file(Storage(self.root), piece) for piece in self._pieces(stay, pieces)]
        return [{**add, "tags": {LEVEL_TAG: str(self.level)}} if self.level else add for add in made]

    def _pieces(self, rows: pa.Table, pieces: int) -> Iterator[pa.Table]:
        """The rows in the order of the key; one piece at a time is copied."""
        order = pc.sort_indices(rows, [(name, "ascending") for name in self.key]) if self.key else None
        size = -(-rows.num_rows // pieces)
        for start in range(0, rows.num_rows, size):
            yield rows.slice(start, size) if order is None else rows.take(order.slice(start, size))


def compact(table: TargetTable, spark: SparkSession, file_bytes: int | None = None) -> MaintenanceReport:
    """Do one step of compaction if the table is worth it: as many packs as the executors write in a few seconds.

    Args:
        table: The table.
        spark: Whose executors work.
        file_bytes: About how large the files are to be, compressed; else as the table says, or 32 MB.

    Raises:
        FencedError: When a newer run has written the table.
    """
    with table.lock:
        attempt = table.begin()
        here = attempt.state.files
        size, most = file_bytes or attempt.state.file_bytes or _PACK_BYTES, _most_packs(spark)
        every = plan_all_packs(attempt.state, size, most + 1)
        packs = every[:most]
        if attempt.progress is None or not packs:
            return _report(here)
        writers = [writer(pack, table.log.storage.root, attempt.state) for pack in packs]
        made = run_on_executors(spark, PackWriter.write, writers)
        failpoint("delta.compaction.written")
        files = [DataFile(add) for adds in made for add in adds]
        gone = here.actions(file for pack in packs for file in pack.files)
        progress = table.ownership.taken_over(attempt.progress)
        table.commit(attempt, progress, add=files, remove=gone, data_change=False)
        return _report(here, gone, files, is_finished=len(packs) == len(every))


def _most_packs(spark: SparkSession) -> int:
    """In one step."""
    return _PACKS_PER_CORE * int(spark.sparkContext.defaultParallelism)


def _report(
    before: FileIndex, gone: Sequence[DataFile] = (), made: Sequence[DataFile] = (), *, is_finished: bool = True
) -> MaintenanceReport:
    """What a step did that put `made` in the place of `gone`."""
    size = sum(int(part.segment.sizes[part.live_rows].sum()) for part in before.parts)
    change = sum(int(file.add["size"]) for file in made) - sum(int(file.add["size"]) for file in gone)
    return MaintenanceReport(
        is_finished, len(before), len(before) - len(gone) + len(made), bytes_before=size, bytes_after=size + change
    )


def key_columns(state: State) -> list[pa.Field]:
    """The columns of the key that rows can be put in order by, as far as they are known and still there."""
    fields = {column.physical: column.arrow for column in state.layout.columns}
    key = state.key or read_key(state)
    return [fields[name] for name in key if name in fields and is_ordered(fields[name].type)]


def writer(pack: Pack, root: str, state: State) -> PackWriter:
    """What writes `pack` of the table at `root`."""
    files = tuple((file.location, file.vector) for file in pack.files)
    names = tuple(field.name for field in key_columns(state))
    folding = folding_of(state, root, pack.files)
    return PackWriter(root, files, state.layout.physical, names, pack.pieces, pack.level, folding)


def plan_all_packs(state: State, file_bytes: int, merges: int) -> list[Pack]:
    """As `plan_packs`; current and ended versions stay in files of their own, so that no file of ended ones is looked through for current ones."""
    end, key = end_column(state), key_columns(state)
    if end is None:
        return plan_packs(state.files, key, file_bytes, merges)

    kinds: tuple[Among, ...] = (lambda part: may_have_null(part, end), lambda part: ~may_have_null(part, end))
    return [pack for kind in kinds for pack in plan_packs(state.files, key, file_bytes, merges, kind)]


def plan_packs(
    files: FileIndex, key: list[pa.Field], file_bytes: int, merges: int, among: Among | None = None
) -> list[Pack]:
    """Which files to write again.

    Args:
        files: The table's.
        key: Columns to put rows in order by; none where they are not known.
        file_bytes: How large files are to be. Smaller ones than half of that are put together once there are several.
        merges: How many groups at most are put in order together.
        among: Which files of a part may be taken; None for all.
    """
    ranges = key_ranges(files, key)
    if among is not None:
        ranges = ranges.without(files.chosen(lambda part: ~among(part)))
    packs = _packs_of_small(files, ranges, file_bytes, among or _all)
    rest = ranges.without([file for pack in packs for file in pack.files])
    groups = plan_merges(files, rest, merges, (TOGETHER + 1) * file_bytes)
    return packs + [Pack(group, len(group), group[0].level + 1) for group in groups]


def _all(part: Part) -> npt.NDArray[np.bool_]:
    return np.ones(len(part.segment), np.bool_)


def _packs_of_small(files: FileIndex, ranges: Ranges, file_bytes: int, among: Among) -> list[Pack]:
    """Small files, and those that lost many rows: neighbours by level and key, so that what is in order stays so."""
    small = files.chosen(lambda part: among(part) & ~_is_holed(part) & (part.segment.sizes <= file_bytes // 2))
    holed = files.chosen(lambda part: among(part) & _is_holed(part))
    if not holed and len(small) < _MANY_SMALL_FILES:
        return []
    groups: list[list[LiveFile]] = []
    size = file_bytes
    for file in ranges.in_order([*small, *holed]):
        if size + file.size > file_bytes:
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += file.size
    again = {file.place for file in holed}
    return [
        Pack(group, 1, min(file.level for file in group))
        for group in groups
        if len(group) > 1 or group[0].place in again
    ]


def _is_holed(part: Part) -> npt.NDArray[np.bool_]:
    """Which files have lost so many rows that the others are written again."""
    rows = part.segment.rows
    return (rows > 0) & (part.segment.gone > _GONE_SHARE * rows)
