"""How compaction folds the files of a merge-on-read table (`replicator_sdk.merge_on_read.folding`)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replicator_sdk.merge_on_read import PRIMARY_KEY, WATERMARK_KEY, MergeOnReadDefinition
from replicator_sdk.merge_on_read.folding import Folding
from replicator_sdk.merge_on_read.tombstones import Tombstones
from replicator_target_delta.apply.key_lookup import Place, find
from replicator_target_delta.apply.pruning import candidate_files, prepare
from replicator_target_delta.apply.row_matching import Sought
from replicator_target_delta.files.storage import Storage
from replicator_target_delta.log.table_state import State
from replicator_target_delta.schema.table_form import names_keys

if TYPE_CHECKING:
    from replicator_target_delta.file_index.file_index import LiveFile

_ROWS_LOOKED_THROUGH: Final = 5_000_000  # more than a few seconds' reading is not worth some tombstones


@dataclass(frozen=True, slots=True)
class OtherFiles:
    """A table's version without the files that are put together; picklable.

    Attributes:
        root: The table's folder.
        state: The version.
    """

    root: str
    state: State

    def __call__(self, keys: pa.Table) -> npt.NDArray[np.bool_]:
        """As `Elsewhere`: each may be there when that takes too long to see."""
        found = np.zeros(len(keys), np.bool_)
        rows = [file.rows for file in candidate_files(self.state.files, keys)]
        if min(rows, default=0) < 0 or sum(rows) > _ROWS_LOOKED_THROUGH:
            return ~found
        for _, match in find(Place(None, self.state, Storage(self.root), 0, soft_deletes=False), Sought(keys)):
            found[match.keys] = True
        return found


def folding_of(state: State, root: str, files: Sequence[LiveFile]) -> Folding | None:
    """How `files` of the table at `root` are folded; None for a merged table."""
    properties = state.metadata["configuration"]
    if WATERMARK_KEY not in properties:
        return None
    definition, layout = MergeOnReadDefinition.from_properties(properties), state.layout
    key = [layout[name].arrow for name in definition.primary_key]
    others = None
    if _drops_tombstones(definition, [column.name for column in layout.columns]):
        rest = replace(state, files=state.files.changed((), state.files.actions(files)))
        prepare(rest.files, key)  # an executor's copy cannot
        others = OtherFiles(root, rest)
    watermarks = tuple(layout[name].physical for name in definition.watermark_keys)
    tombstone = layout[str(definition.tombstone_key)].arrow
    marked = Tombstones(tombstone, definition.tombstone_string_key_value)
    return Folding(tuple(field.name for field in key), watermarks, marked, others)


def read_key(state: State) -> tuple[str, ...]:
    """The physical names of the key that the table's properties name to readers; empty for a merged table."""
    properties = state.metadata["configuration"]
    if not names_keys(properties):
        return ()
    return tuple(state.layout[name].physical for name in json.loads(properties[PRIMARY_KEY]))


def _drops_tombstones(definition: MergeOnReadDefinition, names: list[str]) -> bool:
    """As `WrittenKeys.drops_tombstones`, by the table alone: the columns of the source come before the replicator's own."""
    first, *more = definition.watermark_keys
    return not more and names.index(str(definition.tombstone_key)) > names.index(first)
