"""The columns of a table of versions in Delta, and a copy that is compared with them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replicator_sdk.row_versions import VALID_FROM, VALID_TO, VERSION_END_KEY
from replicator_sdk.row_versions.version_columns import VersionColumns, microseconds
from replicator_target_delta.log.table_state import State
from replicator_target_delta.schema.types import Layout

Int64s = npt.NDArray[np.int64]
_ROUNDED_UP: Final = 999  # microseconds, at most: the log's upper bounds are whole milliseconds


def end_column(state: State) -> pa.Field | None:
    """The column that is NULL in current versions, as the files have it; None for a table that has no versions."""
    properties: Mapping[str, str] = state.metadata.get("configuration", {})
    name = properties.get(VERSION_END_KEY)
    return None if name is None or name not in state.layout else state.layout[name].arrow


@dataclass(frozen=True, slots=True)
class Aside:
    """A copy that is compared with the table when it is complete: what the table stores of it until then. Immutable.

    Attributes:
        began: When; microseconds since 1970 UTC.
        files: The `add` actions of its files, which no version of the table has yet.
    """

    began: int
    files: tuple[dict[str, Any], ...] = ()

    @classmethod
    def of(cls, state: State) -> Aside | None:
        """That of a table; None where it takes none."""
        if not state.unmatched or end_column(state) is None:
            return None
        stored = json.loads(state.unmatched)
        return cls(stored["began"], tuple(stored["files"]))

    def stored(self) -> str:
        """The form in which the table stores it."""
        return json.dumps({"began": self.began, "files": self.files})


def latest_time(state: State, columns: VersionColumns) -> int:
    """A time up to which the table has changes, by the statistics of its files; microseconds since 1970 UTC, 0 where they say none."""
    names = [columns.names[kind] for kind in (VALID_FROM, VALID_TO)]
    bounds = [file.statistics.get("maxValues", {}) for file in state.files.all_actions()]
    found = [datetime.fromisoformat(bound[name]) for bound in bounds for name in names if bound.get(name)]
    return max((microseconds(moment) - _ROUNDED_UP for moment in found), default=0)


def version_columns(layout: Layout, names: Mapping[str, str]) -> VersionColumns:
    """Those of a table with this layout; `names` are `TableForm.names`."""
    return VersionColumns(layout.physical, {kind: layout[name].physical for kind, name in names.items()})
