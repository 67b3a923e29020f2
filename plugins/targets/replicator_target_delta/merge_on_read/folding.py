"""Leaves rows out that no reader sees, when files are put together.

A row goes when the same files have a row of its key with a larger watermark, which stays. A tombstone goes when no other file
has a row of its key, and no older one can come: then a reader that finds no row of the key sees the same.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replicator_sdk.batch import combined
from replicator_sdk.merge_on_read import PRIMARY_KEY, WATERMARK_KEY, MergeOnReadDefinition
from replicator_sdk.net_change import encode_rows as code_rows
from replicator_target_delta.apply.key_lookup import Place, find
from replicator_target_delta.apply.pruning import candidate_files, prepare
from replicator_target_delta.apply.row_matching import Sought
from replicator_target_delta.files.storage import Storage
from replicator_target_delta.log.table_state import State
from replicator_target_delta.merge_on_read.freshness import by_freshness, last_of_each
from replicator_target_delta.merge_on_read.tombstones import Tombstones
from replicator_target_delta.schema.table_form import names_keys

if TYPE_CHECKING:
    from replicator_target_delta.file_index.file_index import LiveFile

Bools = npt.NDArray[np.bool_]
_ROWS_LOOKED_THROUGH: Final = 5_000_000  # more than a few seconds' reading is not worth some tombstones


@dataclass(frozen=True, slots=True)
class Folding:
    """How the rows of some files of a table are folded; picklable.

    Attributes:
        key: The physical names of the key's columns.
        watermarks: Those of the watermark keys.
        tombstones: The tombstone key.
        others: The table's version without the files; None where tombstones stay: where the source gives the watermarks, a row
            that is older than a tombstone may still come.
    """

    key: tuple[str, ...]
    watermarks: tuple[str, ...]
    tombstones: Tombstones
    others: State | None

    def fold(self, root: str, rows: pa.Table) -> pa.Table:
        """Those of `rows` that stay, in their order.

        Args:
            root: The table's folder.
            rows: All rows of the files, in the table's physical schema.
        """
        keys = rows.select(list(self.key))
        codes, count = code_rows([combined(column) for column in keys.columns])
        deleted = self.tombstones.are(rows)
        watermarks = [combined(rows.column(name)) for name in self.watermarks]
        order = by_freshness(codes.astype(np.int64), watermarks, deleted)
        latest = np.empty(count, np.int64)
        newest = order[last_of_each(codes[order])]
        latest[codes[newest]] = newest
        marks, _ = code_rows(watermarks)  # of rows with equal watermarks the reader chooses
        stays: Bools = marks == marks[latest[codes]]
        gone = deleted[latest]
        if self.others is not None and gone.any():
            stays &= ~self._without_trace(root, keys.take(pa.array(latest)), gone)[codes]
        return rows if stays.all() else rows.filter(pa.array(stays))

    def _without_trace(self, root: str, keys: pa.Table, gone: Bools) -> Bools:
        """Which of `keys`, of those that are `gone`, no other file has a row of."""
        assert self.others is not None
        sought = np.flatnonzero(gone)
        wanted = keys.take(pa.array(sought)).combine_chunks()
        found = np.zeros(len(keys), np.bool_)
        rows = [file.rows for file in candidate_files(self.others.files, wanted)]
        if min(rows, default=0) < 0 or sum(rows) > _ROWS_LOOKED_THROUGH:
            return found
        here = np.zeros(len(sought), np.bool_)
        for _, match in find(Place(None, self.others, Storage(root), 0, soft_deletes=False), Sought(wanted)):
            here[match.keys] = True
        found[sought] = ~here
        return found


def folding_of(state: State, files: Sequence[LiveFile]) -> Folding | None:
    """How `files` of the table are folded; None for a merged table."""
    properties = state.metadata["configuration"]
    if WATERMARK_KEY not in properties:
        return None
    definition, layout = MergeOnReadDefinition.from_properties(properties), state.layout
    key = [layout[name].arrow for name in definition.primary_key]
    others = None
    if _drops_tombstones(definition, [column.name for column in layout.columns]):
        others = replace(state, files=state.files.changed((), state.files.actions(files)))
        prepare(others.files, key)  # an executor's copy cannot
    watermarks = tuple(layout[name].physical for name in definition.watermark_keys)
    return Folding(tuple(field.name for field in key), watermarks, Tombstones(layout, definition), others)


def read_key(state: State) -> tuple[str, ...]:
    """The physical names of the key that the table's properties name to readers; empty for a merged table."""
    properties = state.metadata["configuration"]
    if not names_keys(properties):
        return ()
    return tuple(state.layout[name].physical for name in json.loads(properties[PRIMARY_KEY]))


def _drops_tombstones(definition: MergeOnReadDefinition, names: list[str]) -> bool:
    """Whether the watermark is the sequence number alone, and the tombstone key no column of the source: a row that the source itself
    marks as deleted has values which a later update may not send. The columns of the source come before the replicator's own.
    """
    first, *more = definition.watermark_keys
    return not more and names.index(str(definition.tombstone_key)) > names.index(first)
