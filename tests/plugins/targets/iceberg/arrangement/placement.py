"""Whether every file of a table holds rows of its own partition only, in the table's order: computed by `pyiceberg`, row by row."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

import pyarrow.parquet as pq
from pyiceberg.table import Table


def partitions(table: Table) -> dict[str, tuple[int, tuple[Any, ...]]]:
    """The number of the specification and the values of each data file."""
    return {
        task.file.file_path: (task.file.spec_id, tuple(task.file.partition[i] for i in range(len(task.file.partition))))
        for task in table.scan().plan_files()
    }


def check_placement(table: Table) -> int:
    """Assert it of all data files, and that what says which of their rows are gone is in the same partition; returns how many files."""
    count = 0
    names = {field.field_id: field.name for field in table.schema().fields}
    for task in table.scan().plan_files():
        file, count = task.file, count + 1
        rows = pq.read_table(file.file_path.removeprefix("file:"), partitioning=None)
        columns = {int(f.metadata[b"PARQUET:field_id"]): rows.column(f.name).to_pylist() for f in rows.schema}
        spec = table.specs()[file.spec_id]
        for place, field in enumerate(spec.fields):
            kind = table.schema().find_type(field.source_id)
            compute = field.transform.transform(kind)
            values = columns.get(field.source_id, [None] * rows.num_rows)
            assert {compute(_plain(v)) for v in values} == {_plain(file.partition[place])}, names[field.source_id]
        for gone in task.delete_files:
            assert (gone.spec_id, gone.partition) == (file.spec_id, file.partition)
        if file.sort_order_id:
            assert _is_sorted(table, file.sort_order_id, columns)
    return count


def _plain(value: Any) -> Any:
    """Days and microseconds as numbers, which partitions may have them as."""
    if isinstance(value, datetime):
        return (value.replace(tzinfo=None) - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    return (value - date(1970, 1, 1)).days if isinstance(value, date) else value


def _is_sorted(table: Table, number: int, columns: dict[int, list[Any]]) -> bool:
    order = table.sort_orders()[number]
    size = len(next(iter(columns.values())))
    places = list(range(size))
    for field in reversed(order.fields):  # sorting is stable
        values = columns[field.source_id]
        descending, nulls_first = field.direction.value == "desc", field.null_order.value == "nulls-first"
        missing = [p for p in places if values[p] is None]
        there = sorted((p for p in places if values[p] is not None), key=lambda p: values[p], reverse=descending)
        places = missing + there if nulls_first else there + missing
    compared = [tuple(columns[f.source_id][p] for f in order.fields) for p in places]
    return compared == [tuple(columns[f.source_id][p] for f in order.fields) for p in range(size)]
