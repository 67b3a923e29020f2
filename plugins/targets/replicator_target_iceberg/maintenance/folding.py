"""What compaction does with a merge-on-read table: which files are put together, and which of their rows stay.

Rows come in the order of time, so a key's rows are in many files. Files that may hold the same keys are put together, in the order of
their keys: four of one *level* become at most four that follow one another, of the next level. So each row is written again a few
times, however large the table is, and few files of a level may hold a key. The level is in a file's name.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.merge_on_read import MergeOnReadDefinition
from replicator_sdk.merge_on_read.folding import Folding
from replicator_sdk.merge_on_read.tombstones import Tombstones
from replicator_sdk.table_files.overlaps import deepest, narrowest
from replicator_target_iceberg.apply.keyed import choosing_column
from replicator_target_iceberg.apply.matching import Sought, find
from replicator_target_iceberg.config import OWN_TOMBSTONE, Mode
from replicator_target_iceberg.files.data_file import FULL
from replicator_target_iceberg.files.live_files import LiveFile, LiveFiles
from replicator_target_iceberg.files.storage import Storage

if TYPE_CHECKING:
    from replicator_target_iceberg.log.version import Version
    from replicator_target_iceberg.schema.types import Layout

TOGETHER: Final = 4
HIGHEST_LEVEL: Final = 12
"""Where ranges cannot be made narrower, as of keys without one, writing again ends there."""
_ROWS_LOOKED_THROUGH: Final = 5_000_000  # more than a few seconds' reading is not worth some tombstones
_LEVEL: Final = re.compile(rf"(?:{FULL})?level(\d+)-")


def level_of(file: LiveFile) -> int:
    """How often the rows of a file were put in order together with others'."""
    found = _LEVEL.match(file.location.rpartition("/")[2])
    return 0 if found is None else int(found[1])


def name_of(level: int) -> str:
    """What the names of files of a level begin with, after `FULL` for full ones."""
    return f"level{level}-" if level else ""


def overlapping(files: Iterable[LiveFile], largest: int) -> list[LiveFile]:
    """Four files of one partition and level that may all hold one key, where the most do; empty when no four may.

    Args:
        files: Those that are not put together as small ones.
        largest: How large one may be, in bytes: the rows of all four are in memory at once.
    """
    groups: dict[Any, list[LiveFile]] = defaultdict(list)
    for file in files:
        if file.size <= largest and level_of(file) < HIGHEST_LEVEL:
            groups[(level_of(file), file.partition)].append(file)
    best: list[LiveFile] = []
    most = TOGETHER - 1
    for group in groups.values():
        low, high = _ranges(group)
        covering = deepest(low, high)
        if len(covering) > most:
            most = len(covering)
            best = [group[covering[i]] for i in narrowest(low[covering], high[covering], TOGETHER)]
    return best


def _ranges(files: Sequence[LiveFile]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The ends of the files' ranges as numbers in the order of the keys; without a range a file may hold any key."""
    ends = {end for file in files for end in (file.lowest, file.highest) if end is not None}
    numbers = {end: place for place, end in enumerate(sorted(ends, key=_order), 1)}
    known = [file.lowest is not None and file.highest is not None for file in files]
    low = [numbers[file.lowest] if is_known else 0 for file, is_known in zip(files, known, strict=True)]
    high = [
        numbers[file.highest] if is_known else len(numbers) + 1 for file, is_known in zip(files, known, strict=True)
    ]
    return np.array(low, np.int64), np.array(high, np.int64)


def _order(end: Any) -> Any:
    return end.encode() if isinstance(end, str) else end  # texts are in the order of their bytes


@dataclass(frozen=True, slots=True)
class History:
    """A merge-on-read table as compaction sees it.

    Attributes:
        definition: By what readers find the latest row.
        drops_tombstones: As `WrittenKeys.drops_tombstones`.
        chosen_by: The identity of the column by whose range files are chosen.
    """

    definition: MergeOnReadDefinition
    drops_tombstones: bool
    chosen_by: int | None

    @classmethod
    def of(cls, version: Version) -> History | None:
        """That of a table's version; None for a table of another mode."""
        if version.mode is not Mode.MERGE_ON_READ:
            return None
        properties = version.key_properties()
        definition = MergeOnReadDefinition.from_properties(properties)
        is_ours = len(definition.watermark_keys) == 1 and properties[OWN_TOMBSTONE] == "true"
        return cls(definition, is_ours, choosing_column(version.layout, definition.primary_key))

    def folding(self, storage: Storage, layout: Layout, others: LiveFiles) -> Folding:
        """How rows are folded.

        Args:
            storage: The table's files.
            layout: Its columns.
            others: Its files without those whose rows are folded.
        """
        definition = self.definition
        tombstones = Tombstones(layout.field(str(definition.tombstone_key)), definition.tombstone_string_key_value)
        elsewhere = _OtherFiles(storage, others) if self.drops_tombstones else None
        return Folding(definition.primary_key, definition.watermark_keys, tombstones, elsewhere)

    def ordered(self, rows: pa.Table, size: int) -> Iterator[pa.Table]:
        """Rows in the order of the key, as far as it can be ordered by, in parts of about `size` bytes."""
        names = [name for name in self.definition.primary_key if not _has_no_order(rows.schema.field(name).type)]
        rows = rows.combine_chunks()  # else each part would put all chunks together
        order = pc.sort_indices(rows, [(name, "ascending") for name in names]) if names else None
        step = max(1, int(rows.num_rows * size / max(1, rows.nbytes)))
        for start in range(0, rows.num_rows, step):
            yield rows.slice(start, step) if order is None else rows.take(order.slice(start, step))


@dataclass(frozen=True, slots=True)
class _OtherFiles:
    storage: Storage
    files: LiveFiles

    def __call__(self, keys: pa.Table) -> npt.NDArray[np.bool_]:
        """As `Elsewhere`: each may be there when that takes too long to see."""
        found = np.zeros(keys.num_rows, np.bool_)
        if sum(file.rows for file in self.files.that_may_hold(keys)) > _ROWS_LOOKED_THROUGH:
            return ~found
        for match in find(self.storage, self.files, Sought(keys)):
            found[match.keys] = True
        return found


def _has_no_order(kind: pa.DataType) -> bool:
    return bool(pa.types.is_nested(kind))
