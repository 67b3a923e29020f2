"""Which part of the target a batch can touch, as literal ranges: BigQuery then reads only those blocks and partitions.

Ranges are taken of key columns that order like whole numbers. No text is ever written into a statement: BigQuery keeps
statements, and a key of text may be a person's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Final

import numpy as np
import pyarrow as pa

from replicator_sdk.batch import Int64s, TableChanges
from replicator_sdk.event import DMLOperation
from replicator_sdk.schema import TableSchema
from replicator_target_bigquery.schema.fields import Field
from replicator_target_bigquery.schema.table_info import TableInfo
from replicator_target_bigquery.sql.text import name

_RANGES: Final = 16
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - wall clock and UTC alike
_PRUNES: Final = frozenset({"INT64", "DATE", "DATETIME", "TIMESTAMP"})


def prunes(column: Field) -> bool:
    """Whether ranges of the column's values help."""
    return column.type in _PRUNES and column.mode != "REPEATED"


@dataclass(slots=True)
class KeyRanges:
    """Ranges that hold every value seen of one column; few, with the widest gaps between them."""

    column: Field
    has_null: bool = False
    _low: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    _high: Int64s = field(default_factory=lambda: np.empty(0, np.int64))

    def add(self, values: pa.Array) -> None:
        """Take in values; NULLs count as one more place."""
        if values.null_count:
            self.has_null = True
            values = values.drop_null()
        if len(values) == 0:
            return
        if pa.types.is_date32(values.type):
            values = values.cast(pa.int32())
        numbers = np.sort(values.cast(pa.int64()).to_numpy(zero_copy_only=False))
        self._join(*_cut(numbers, numbers))

    def _join(self, low: Int64s, high: Int64s) -> None:
        """Take in ranges."""
        if len(low) == 0:
            return
        order = np.argsort(np.concatenate([self._low, low]), kind="stable")
        lows, highs = np.concatenate([self._low, low])[order], np.concatenate([self._high, high])[order]
        self._low, self._high = _cut(lows, np.maximum.accumulate(highs))

    def include(self, other: KeyRanges) -> None:
        """Take in all that another one of the same column holds."""
        self.has_null |= other.has_null
        self._join(other._low, other._high)

    def condition(self, alias: str) -> str:
        """Every value seen, NULL included, meets it; empty when none was seen."""
        column = f"{alias}.{name(self.column.name)}"
        parts = [
            f"{column} BETWEEN {self._literal(a)} AND {self._literal(b)}"
            for a, b in zip(self._low, self._high, strict=True)
        ]
        if self.has_null:
            parts.append(f"{column} IS NULL")
        return f"({' OR '.join(parts)})" if parts else ""

    def _literal(self, value: np.int64) -> str:
        return literal(self.column, int(value))


def literal(column: Field, value: int) -> str:
    """A whole number as a literal of the column's type: days or microseconds since 1970 for dates and times."""
    if column.type == "INT64":
        return str(value)
    if column.type == "DATE":
        return f"DATE '{(date(1970, 1, 1) + timedelta(days=value)).isoformat()}'"
    moment = (_EPOCH + timedelta(microseconds=value)).isoformat(sep=" ", timespec="microseconds")
    return f"TIMESTAMP '{moment}+00'" if column.type == "TIMESTAMP" else f"DATETIME '{moment}'"


def _cut(lows: Int64s, highs: Int64s) -> tuple[Int64s, Int64s]:
    """Ranges between the widest gaps of ascending ranges."""
    if len(lows) <= 1:
        return lows[:1], highs[-1:]
    gaps = lows[1:].astype(np.float64) - highs[:-1]
    wide = (
        np.sort(np.argpartition(gaps, -(_RANGES - 1))[-(_RANGES - 1) :])
        if len(gaps) >= _RANGES
        else np.arange(len(gaps))
    )
    wide = wide[gaps[wide] > 1]
    return lows[np.concatenate([[0], wide + 1])], highs[np.concatenate([wide, [len(highs) - 1]])]


def key_ranges(schema: TableSchema, found: TableInfo, names: Mapping[str, str]) -> dict[str, KeyRanges]:
    """Empty ranges, by the source's names, for the columns of the key that say which blocks of a table a batch touches."""
    key = schema.primary_key
    wanted = {n for n in key if n == key[0] or names[n].lower() == found.partition.lower()}
    columns = {n: found.column(names[n]) for n in wanted}
    return {n: KeyRanges(c) for n, c in columns.items() if c is not None and prunes(c)}


def add_keys(ranges: Mapping[str, KeyRanges], changes: TableChanges) -> None:
    """Extend the ranges by every key that the changes touch, before and after them."""
    for batch in changes.batches() if ranges else ():
        deletes = batch.op.to_numpy(zero_copy_only=False) == DMLOperation.DELETE
        for column, kept in ranges.items():
            rows = batch.row.field(column)
            kept.add(rows.take(pa.array(np.flatnonzero(~deletes))) if deletes.any() else rows)
            if batch.before is not None:
                given = np.flatnonzero(batch.before.is_valid().to_numpy(zero_copy_only=False))
                kept.add(batch.before.field(column).take(pa.array(given)))


@dataclass(frozen=True, slots=True)
class Pruning:
    """Conditions that every row a batch can touch meets.

    Attributes:
        ranges: Of the columns that prune.
        required_filter: The partitioning column of a table that refuses queries without a filter on it.
    """

    ranges: tuple[KeyRanges, ...] = ()
    required_filter: Field | None = None

    def conditions(self, alias: str) -> list[str]:
        """The conditions on the rows of `alias`."""
        conditions = {r.column.name: r.condition(alias) for r in self.ranges}
        found = [text for text in conditions.values() if text]
        if self.required_filter is not None and not conditions.get(self.required_filter.name):
            # The key does not determine the partition.
            found.append(every_row(self.required_filter, f"{alias}.{name(self.required_filter.name)}"))
        return found


def every_row(column: Field, quoted: str) -> str:
    """A filter on a partitioning column, named `quoted` in the statement, that BigQuery accepts and every row meets."""
    lowest = {
        "DATE": "DATE '0001-01-01'",
        "DATETIME": "DATETIME '0001-01-01 00:00:00'",
        "TIMESTAMP": "TIMESTAMP '0001-01-01 00:00:00+00'",
    }.get(column.type, str(-(2**63)))
    return f"({quoted} >= {lowest} OR {quoted} IS NULL)"


def utc_literal(microseconds: int) -> str:
    """A moment as a TIMESTAMP literal."""
    moment = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=microseconds)
    return f"TIMESTAMP '{moment.strftime('%Y-%m-%d %H:%M:%S.%f')}+00'"
