"""The files, and the tables that they make."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from replicator_sdk import Column, TableSchema
from replicator_sdk.schema import rename_table

Line = dict[str, Any]
Row = dict[str, Any]


def path_of(folder: Path, number: int) -> Path:
    """The file of a transaction."""
    return folder / f"{number:08}.ndjson"


def last_number(folder: Path) -> int:
    """The number of the newest file; 0 when there is none."""
    return max((int(path.stem) for path in folder.glob("*.ndjson")), default=0)


def lines(folder: Path, number: int) -> list[Line]:
    """The lines of a file."""
    return [json.loads(line) for line in path_of(folder, number).read_text("utf-8").splitlines()]


def is_structure(line: Line) -> bool:
    """Whether a line is no row change."""
    return "op" not in line


def origins(line: Line, before: TableSchema) -> dict[str, str]:
    """Name after a change of structure → name before it, of every column that was there before."""
    after = TableSchema.from_json(line["schema"])
    renamed = line.get("renamed", {})
    found = {name: renamed.get(name, name) for name in after.names}
    gone = set(renamed.values())
    return {new: old for new, old in found.items() if old in before and (new in renamed or old not in gone)}


def typed(column: Column, value: Any) -> Any:
    """A value of a file as the column's type has it."""
    readers: list[tuple[Callable[[pa.DataType], bool], Callable[[Any], Any]]] = [
        (pa.types.is_decimal, Decimal),
        (pa.types.is_binary, bytes.fromhex),
        (pa.types.is_date, date.fromisoformat),
        (pa.types.is_time, time.fromisoformat),
        (pa.types.is_timestamp, datetime.fromisoformat),
        (pa.types.is_string, str),  # of a number that was written before the column became text
    ]
    found = [reader for is_kind, reader in readers if is_kind(column.type.arrow)]
    return found[0](value) if found and value is not None else value


def typed_row(schema: TableSchema, row: Row) -> Row:
    """The columns of a schema that a row of a file has."""
    return {column.name: typed(column, row[column.name]) for column in schema.columns if column.name in row}


@dataclass
class Table:
    """A table as the files make it; its rows as the files have them."""

    schema: TableSchema
    rows: list[Row] = field(default_factory=list)

    def apply(self, line: Line) -> None:
        """A row change."""
        if line["op"] != "INSERT":
            names = self.schema.primary_key or self.schema.names
            old = line.get("before") or line["row"]
            found = next(row for row in self.rows if all(row[name] == old[name] for name in names))
            self.rows.remove(found)
            line = {**line, "row": {**found, **(line.get("row") or {})}}
        if line["op"] != "DELETE":
            self.rows.append({name: line["row"].get(name) for name in self.schema.names})

    def alter(self, line: Line) -> None:
        """Another schema."""
        names = origins(line, self.schema)
        defaults = line.get("defaults", {})
        self.schema = TableSchema.from_json(line["schema"])
        self.rows = [
            {name: row[names[name]] if name in names else defaults.get(name) for name in self.schema.names}
            for row in self.rows
        ]


def tables(folder: Path, last: int) -> dict[str, Table]:
    """Every table as it is after the file `last`."""
    found: dict[str, Table] = {}
    for line in (line for number in range(1, last + 1) for line in lines(folder, number)):
        name = line.get("table", "")
        if "renames" in line:
            moved = {new: found.pop(former) for former, new in line["renames"].items()}
            for new, table in moved.items():
                table.schema = rename_table(table.schema, replace(table.schema.table, table=new))
            found |= moved
        elif "drop" in line:
            del found[name]
        elif "truncate" in line:
            found[name].rows.clear()
        elif "schema" not in line:
            found[name].apply(line)
        elif name in found:
            found[name].alter(line)
        else:
            found[name] = Table(TableSchema.from_json(line["schema"]))
    return found


def record_batches(schema: TableSchema, rows: list[Row], size: int = 10_000) -> Iterator[pa.RecordBatch]:
    """Rows of the files as Arrow."""
    for start in range(0, len(rows), size):
        part = [typed_row(schema, row) for row in rows[start : start + size]]
        yield pa.RecordBatch.from_pylist(part, schema=schema.arrow)
