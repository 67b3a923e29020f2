"""The columns of a table of versions, and how a version comes to be ended."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replicator_sdk.batch import combined
from replicator_target_delta.config import SEQUENCE, VALID_FROM, VALID_TO
from replicator_target_delta.log.table_state import State
from replicator_target_delta.schema.metadata_columns import Spans
from replicator_target_delta.schema.table_form import VERSION_END_KEY
from replicator_target_delta.schema.types import Layout

Int64s = npt.NDArray[np.int64]
FIRST_COPY: Final = 0
"""The number of versions that were not opened by a change, nor by a copy of a table that has versions."""
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


def now() -> int:
    """Microseconds since 1970 UTC."""
    return time.time_ns() // 1000


def microseconds(moment: datetime) -> int:
    """Since 1970 UTC, of an aware time."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class VersionColumns:
    """Of one table, as its files have them; picklable.

    Attributes:
        schema: All columns.
        names: Kind of column → its physical name.
    """

    schema: pa.Schema
    names: dict[str, str]

    @classmethod
    def of(cls, layout: Layout, names: Mapping[str, str]) -> VersionColumns:
        """Those of a table with this layout; `names` are `TableForm.names`."""
        return cls(layout.physical, {kind: layout[name].physical for kind, name in names.items()})

    def field(self, kind: str) -> pa.Field:
        """One of the columns."""
        return self.schema.field(self.names[kind])

    def starts(self, rows: pa.Table) -> Int64s:
        """From when versions are valid; microseconds since 1970 UTC."""
        found: Int64s = combined(rows.column(self.names[VALID_FROM])).cast(pa.int64()).fill_null(0).to_numpy()
        return found

    def numbers(self, rows: pa.Table) -> Int64s:
        """The numbers of the changes that opened versions."""
        found: Int64s = combined(rows.column(self.names[SEQUENCE])).fill_null(-1).to_numpy()
        return found

    def ended(self, rows: pa.Table, numbers: Int64s, times: Int64s, starts: Int64s | None = None) -> pa.Table:
        """The same versions, ended; a version is valid for no time rather than to a time before it began.

        Args:
            rows: Current versions, all columns.
            numbers: The number of the change that ends each.
            times: Its commit time, microseconds since 1970 UTC.
            starts: From when the versions are valid; None where that stays as it is.
        """
        begun = self.starts(rows) if starts is None else starts
        spans = Spans(begun, np.maximum(begun, times), numbers)
        made = {kind: values for kind, values in spans.columns().items() if starts is not None or kind != VALID_FROM}
        for kind, values in made.items():
            place = rows.schema.get_field_index(self.names[kind])
            rows = rows.set_column(place, rows.schema.field(place), values.cast(rows.schema.field(place).type))
        return rows
