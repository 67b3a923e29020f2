"""Finds rows of a table by their values: reads no other columns than are compared or wanted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replicator_sdk.distributed.executors import run_on_threads
from replicator_sdk.net_change import look_up
from replicator_target_iceberg.files.data_file import read_rows
from replicator_target_iceberg.files.deleted_rows import deleted_rows
from replicator_target_iceberg.files.live_files import LiveFile, LiveFiles
from replicator_target_iceberg.files.storage import Storage

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Sought:
    """What is looked for.

    Attributes:
        keys: Distinct rows of the columns that are compared, as the table's files have them.
        fetch: Further columns that are wanted of the rows that are found.
        only_null: Only rows that have NULL in this column of `fetch` are found, in files that are not of ended versions; None for all rows.
    """

    keys: pa.Table
    fetch: tuple[pa.Field, ...] = ()
    only_null: pa.Field | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """The live rows of one file that were looked for.

    Attributes:
        file: The file.
        gone: Indexes of its rows that were gone before, ascending.
        places: Indexes of the rows found, ascending.
        keys: For each of them which of the keys it has.
        fetched: The columns that were wanted, a row for each.
    """

    file: LiveFile
    gone: Int64s
    places: Int64s
    keys: Int64s
    fetched: pa.Table


def find(storage: Storage, files: LiveFiles, sought: Sought) -> Iterator[Found]:
    """The rows that hold the keys, file by file, in no order; files without any are left out.

    Keys are compared as SQL's IS NOT DISTINCT FROM does; NaN equals NaN.
    """
    if sought.keys.num_rows:
        chosen = files.that_may_hold(sought.keys)
        if sought.only_null is not None:
            chosen = [file for file in chosen if not file.is_past]
        for found in run_on_threads(lambda file: _in_file(storage, file, sought), chosen):
            if found is not None:
                yield found


def _in_file(storage: Storage, file: LiveFile, sought: Sought) -> Found | None:
    """Reads what is compared first, and what is wanted only where something is found."""
    places, keys, start = [np.empty(0, np.int64)], [np.empty(0, np.int64)], 0
    null = [] if sought.only_null is None else [sought.only_null]
    size = sought.keys.num_columns
    for rows in read_rows(storage, file.location, [*sought.keys.schema, *null]):
        which = look_up(rows.select(list(range(size))), sought.keys)
        if null:
            which[rows.column(size).is_valid().to_numpy()] = -1
        here = np.flatnonzero(which >= 0)
        places.append(here + start)
        keys.append(which[here])
        start += rows.num_rows
    found, key = np.concatenate(places), np.concatenate(keys)
    if not len(found):
        return None
    gone = deleted_rows(storage, file)
    there = ~np.isin(found, gone, assume_unique=True)
    if not there.any():
        return None
    found, key = found[there], key[there]
    return Found(file, gone, found, key, rows_at(storage, file.location, found, sought.fetch))


def rows_at(storage: Storage, location: str, places: Int64s, fields: Sequence[pa.Field]) -> pa.Table:
    """Columns of some rows of a file, by their ascending indexes; the file is not read where no column is wanted."""
    schema, parts, start = pa.schema([field.with_nullable(True) for field in fields]), [], 0
    for rows in read_rows(storage, location, fields) if fields else ():
        low, high = np.searchsorted(places, [start, start + rows.num_rows])
        parts.append(rows.take(pa.array(places[low:high] - start)))
        start += rows.num_rows
    return pa.concat_tables([schema.empty_table(), *parts])
