"""Writes a table's files again under other columns: filled new columns, columns of another type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.batch import combined
from replicator_sdk.distributed.executors import run_on_threads
from replicator_sdk.row_versions import END_SEQUENCE
from replicator_target_iceberg.files.data_file import PAST, NewFile, read_rows, write_data_files
from replicator_target_iceberg.files.deleted_rows import deleted_rows
from replicator_target_iceberg.files.form import FileForm
from replicator_target_iceberg.files.live_files import LiveFile
from replicator_target_iceberg.files.storage import Storage
from replicator_target_iceberg.schema.encoding import fit
from replicator_target_iceberg.schema.table_form import VERSION_NAMES


@dataclass(frozen=True, slots=True)
class NewValues:
    """What a column holds in rows that are there. Immutable.

    Attributes:
        default: The value of every row, an array of one; None when it comes from another column.
        origin: The column it is cast from, as the files have it.
        only_current: Whether ended versions have NULL instead of `default`.
    """

    default: pa.Array | None = None
    origin: pa.Field | None = None
    only_current: bool = False


def rewrite_files(
    storage: Storage,
    files: Iterable[LiveFile],
    wanted: pa.Schema,
    values: Mapping[str, NewValues],
    form: FileForm,
) -> list[NewFile]:
    """New files that hold the live rows of others under the columns `wanted`; the caller commits them.

    Raises:
        pyarrow.ArrowInvalid: When a value does not fit its new type.
    """
    work = partial(_rewritten, storage, wanted=wanted, values=values, form=form)
    return [new for made in run_on_threads(work, files) for new in made]


def live_rows(storage: Storage, file: LiveFile, fields: list[pa.Field]) -> Iterable[pa.Table]:
    """The rows of a file that are not gone, a row group at a time."""
    gone, start = deleted_rows(storage, file), 0
    for rows in read_rows(storage, file.location, fields):
        here = gone[(gone >= start) & (gone < start + rows.num_rows)] - start
        start += rows.num_rows
        kept = np.ones(rows.num_rows, np.bool_)
        kept[here] = False
        yield rows.filter(pa.array(kept)) if len(here) else rows


def _rewritten(
    storage: Storage, file: LiveFile, *, wanted: pa.Schema, values: Mapping[str, NewValues], form: FileForm
) -> list[NewFile]:
    """New files for the live rows of an old one, by partition."""
    plain = [f for f in wanted if f.name not in values]
    origins = [v.origin for v in values.values() if v.origin is not None]
    parts = []
    for rows in live_rows(storage, file, [*plain, *origins]):
        columns = {f.name: combined(rows.column(place)) for place, f in enumerate(plain)}
        sources = iter(combined(rows.column(len(plain) + place)) for place in range(len(origins)))
        for name, value in values.items():
            kind = wanted.field(wanted.get_field_index(name)).type
            columns[name] = _values(value, next(sources) if value.origin is not None else None, kind, rows)
        parts.append(pa.Table.from_arrays([columns[f.name] for f in wanted], schema=wanted))
    if not any(part.num_rows for part in parts):
        return []
    return write_data_files(storage, pa.concat_tables(parts), form, begin=PAST if file.is_past else "")


def _values(value: NewValues, source: pa.Array | None, kind: pa.DataType, rows: pa.Table) -> pa.Array:
    if source is not None:
        return fit(source, kind)
    assert value.default is not None
    made = fit(value.default, kind)
    if value.only_current:
        is_current = combined(rows.column(VERSION_NAMES[END_SEQUENCE])).is_null()
        return pc.if_else(is_current, made[0], pa.scalar(None, kind))
    return pa.repeat(made[0], rows.num_rows)
