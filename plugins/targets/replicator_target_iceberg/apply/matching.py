"""Finds rows of a table by their values: reads no other columns than are compared or wanted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.batch import combined
from replicator_sdk.distributed.executors import run_on_threads
from replicator_sdk.net_change import encode_rows as code_rows
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
    """

    keys: pa.Table
    fetch: tuple[pa.Field, ...] = ()


@dataclass(slots=True)
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
    _parts: list[pa.Table] = field(default_factory=list)


def find(storage: Storage, files: LiveFiles, sought: Sought) -> Iterator[Found]:
    """The rows that hold the keys, file by file, in no order; files without any are left out.

    Keys are compared as SQL's IS NOT DISTINCT FROM does; NaN equals NaN.
    """
    if sought.keys.num_rows:
        for found in run_on_threads(lambda file: _in_file(storage, file, sought), files.that_may_hold(sought.keys)):
            if found is not None:
                yield found


def _in_file(storage: Storage, file: LiveFile, sought: Sought) -> Found | None:
    places, keys, parts, start = [], [], [], 0
    gone: Int64s | None = None
    for rows in read_rows(storage, file.location, [*sought.keys.schema, *sought.fetch]):
        own = rows.select(list(range(sought.keys.num_columns)))
        which = _match(own, sought.keys)
        here = np.flatnonzero(which >= 0)
        if len(here):
            if gone is None:
                gone = deleted_rows(storage, file)
            here = here[~np.isin(here + start, gone, assume_unique=True)]
            places.append(here + start)
            keys.append(which[here])
            wanted = rows.select(list(range(sought.keys.num_columns, rows.num_columns)))
            parts.append(wanted.take(pa.array(here)))
        start += rows.num_rows
    if gone is None or not any(map(len, places)):
        return None
    return Found(file, gone, np.concatenate(places), np.concatenate(keys), pa.concat_tables(parts))


def _match(rows: pa.Table, keys: pa.Table) -> Int64s:
    """For each row the index of the key that it has, -1 for none."""
    if keys.num_columns == 1 and not _is_compared_by_codes(keys.schema.field(0).type):
        places = pc.index_in(combined(rows.column(0)), value_set=combined(keys.column(0)))
        found: Int64s = pc.fill_null(places, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        return found
    pairs = zip(keys.columns, rows.columns, strict=True)
    codes, count = code_rows([pa.concat_arrays([combined(key), combined(row)]) for key, row in pairs])
    place = np.full(count, -1, np.int64)
    place[codes[: keys.num_rows]] = np.arange(keys.num_rows)
    return place[codes[keys.num_rows :]]


def _is_compared_by_codes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_nested(kind))
