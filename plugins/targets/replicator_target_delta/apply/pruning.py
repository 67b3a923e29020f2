"""Which files of a table can hold any of a batch's keys, judged by the statistics in the log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replicator_sdk.batch import combined
from replicator_target_delta.apply.sought_keys import KeyColumn
from replicator_target_delta.file_index.bounds import Bools, ColumnBounds
from replicator_target_delta.file_index.file_index import FileIndex, LiveFile, Part
from replicator_target_delta.file_index.sort_words import Words, as_texts, is_ordered

Int64s = npt.NDArray[np.int64]
_COLUMNS: Final = 4  # so many are judged by; a table without a key has all its columns for one
_PAIRS: Final = 1 << 20


def key_fields(fields: Iterable[pa.Field]) -> list[pa.Field]:
    """The key columns that files are judged by."""
    return [field for field in fields if is_ordered(field.type)][:_COLUMNS]


def prepare(files: FileIndex, fields: Iterable[pa.Field], only_null: pa.Field | None = None) -> None:
    """Have the bounds of a key at hand, and of a column that is to be NULL, also in copies of `files` that executors get."""
    columns = key_fields(fields) + ([] if only_null is None else [only_null])
    for part in files.parts:
        part.segment.keep_bounds({column.name for column in columns})
        for column in columns:
            part.segment.bounds(column)


def candidate_files(files: FileIndex, keys: pa.Table, only_null: pa.Field | None = None) -> list[LiveFile]:
    """The files that cannot be ruled out for every key.

    Args:
        files: With their statistics; one without is a candidate.
        keys: Key columns under their physical names, in Delta's types; at least one row.
        only_null: Only files that may have NULL in this column.
    """
    prepare(files, keys.schema, only_null)
    columns = [KeyColumn(field, combined(keys.column(field.name))) for field in key_fields(keys.schema)]
    found: list[LiveFile] = []
    for number, part in enumerate(files.parts):
        judged = [column for column in columns if not column.has_nan]
        found += files.at(number, _candidates(part, judged, _with_null(part, only_null)))
    return found


def _with_null(part: Part, only_null: pa.Field | None) -> Int64s:
    """Where the files are in one part that may have NULL in a column; all of them where there is none."""
    rows = part.live_rows
    return rows if only_null is None else rows[may_have_null(part, only_null)[rows]]


def may_have_null(part: Part, field: pa.Field) -> npt.NDArray[np.bool_]:
    """Which files of a part may have NULL in a column, by their statistics."""
    bounds = part.segment.bounds(field)
    found: npt.NDArray[np.bool_] = np.ones(len(part.segment), np.bool_) if bounds is None else bounds.nulls
    return found


def _candidates(part: Part, columns: Sequence[KeyColumn], rows: Int64s) -> Int64s:
    """Which of the files at `rows` of one part are candidates: each column by itself first, then together what that leaves."""
    known: list[tuple[KeyColumn, ColumnBounds]] = []
    for column in columns:
        bounds = part.segment.bounds(column.field)
        if bounds is None or len(rows) == 0:
            continue
        rows = rows[_may_hold(bounds, rows, column)]
        known.append((column, bounds))
    if len(known) > 1 and len(rows) and not any(column.has_null for column, _ in known):
        rows = rows[_hold_together(known, rows)]
    return rows


def _may_hold(bounds: ColumnBounds, rows: Int64s, column: KeyColumn) -> Bools:
    """Which of the files at `rows` may hold a value of one key column."""
    found = _between(bounds.low[rows], bounds.high[rows], column.ordered(bounds.prefix, bounds.low.shape[1]).words)
    if column.size:
        found |= bounds.unknown[rows]
    if column.has_null:
        found |= bounds.nulls[rows]
    return found


def _between(low: Words, high: Words, keys: Words) -> Bools:
    """For each pair of bounds whether one of the ascending `keys` is between them."""
    if len(keys) == 0:
        return np.zeros(len(low), np.bool_)
    found = _one_between(low[:, 0], high[:, 0], keys[:, 0])
    if keys.shape[1] > 1 and found.any():
        left = np.flatnonzero(found)
        found[left] = _one_between(as_texts(low[left]), as_texts(high[left]), as_texts(keys))
    return found


def _one_between(low: npt.NDArray[Any], high: npt.NDArray[Any], keys: npt.NDArray[Any]) -> Bools:
    first = np.searchsorted(keys, low, "left")
    there = first < len(keys)
    found: Bools = there & (keys[np.where(there, first, 0)] <= high)
    return found


def _hold_together(known: Sequence[tuple[KeyColumn, ColumnBounds]], rows: Int64s) -> Bools:
    """Which of the files may hold one key in all its columns; all where there are too many pairs to look at.

    A file is paired with the keys whose first column it may hold.
    """
    column, bounds = known[0]
    ordered = column.ordered(bounds.prefix, bounds.low.shape[1])
    first = np.searchsorted(ordered.words[:, 0], bounds.low[rows, 0], "left")
    counts = np.searchsorted(ordered.words[:, 0], bounds.high[rows, 0], "right") - first
    judged = ~bounds.unknown[rows]
    counts = np.where(judged, np.maximum(counts, 0), 0)
    pairs = int(counts.sum())
    if pairs > _PAIRS:
        return np.ones(len(rows), np.bool_)
    file = np.repeat(np.arange(len(rows)), counts)
    step = np.arange(pairs) - np.repeat(np.cumsum(counts) - counts, counts)
    key = ordered.indexes[np.repeat(first, counts) + step]
    held = np.ones(pairs, np.bool_)
    for other, theirs in known:
        held &= _in_bounds(other, theirs, key, rows[file])
    found = ~judged
    found[file[held]] = True
    return found


def _in_bounds(column: KeyColumn, bounds: ColumnBounds, key: Int64s, rows: Int64s) -> Bools:
    """For each pair whether the file's bounds do not rule the key out, in one column."""
    words, fits = column.unordered(bounds.prefix, bounds.low.shape[1])
    value = words[key]
    inside = _at_most(bounds.low[rows], value) & _at_most(value, bounds.high[rows]) & fits[key]
    return inside | bounds.unknown[rows]


def _at_most(left: Words, right: Words) -> Bools:
    if left.shape[1] == 1:
        found: Bools = left[:, 0] <= right[:, 0]
    else:
        found = as_texts(left) <= as_texts(right)
    return found
