"""The columns of a table of versions: when each was valid, and how it comes to be ended."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replicator_sdk.batch import combined
from replicator_sdk.row_versions import END_SEQUENCE, IS_CURRENT, SEQUENCE, VALID_FROM, VALID_TO

Int64s = npt.NDArray[np.int64]
_TIME: Final = pa.timestamp("us", "UTC")


def now() -> int:
    """Microseconds since 1970 UTC."""
    return time.time_ns() // 1000


def microseconds(moment: datetime) -> int:
    """Since 1970 UTC, of an aware time."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Spans:
    """When versions were valid; microseconds since 1970 UTC. All arrays have one length.

    Attributes:
        start: From when.
        end: To when; without meaning for one that is current.
        end_sequence: The number of the change that ended it; -1 for one that is current.
    """

    start: Int64s
    end: Int64s
    end_sequence: Int64s

    @classmethod
    def current(cls, start: Int64s) -> Spans:
        """Those of current versions."""
        none = np.full(len(start), -1, np.int64)
        return cls(start, none, none)

    def __getitem__(self, which: slice) -> Spans:
        return Spans(self.start[which], self.end[which], self.end_sequence[which])

    @property
    def is_current(self) -> npt.NDArray[np.bool_]:
        """Which are current."""
        current: npt.NDArray[np.bool_] = self.end_sequence < 0
        return current

    def columns(self) -> dict[str, pa.Array]:
        """The columns that say so, by kind."""
        current = self.is_current
        return {
            VALID_FROM: pa.array(self.start).cast(_TIME),
            VALID_TO: pa.array(self.end, mask=current).cast(_TIME),
            IS_CURRENT: pa.array(current),
            END_SEQUENCE: pa.array(self.end_sequence, mask=current),
        }


@dataclass(frozen=True, slots=True)
class VersionColumns:
    """Of one table, as its files have them; picklable.

    Attributes:
        schema: All columns.
        names: Kind of column → its name in the files.
    """

    schema: pa.Schema
    names: dict[str, str]

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

    def beginning(self, rows: pa.Table, starts: Int64s) -> pa.Table:
        """The same versions, valid from other times on."""
        field = self.field(VALID_FROM)
        return rows.set_column(
            rows.schema.get_field_index(field.name), field, pa.array(starts).cast(_TIME).cast(field.type)
        )

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
