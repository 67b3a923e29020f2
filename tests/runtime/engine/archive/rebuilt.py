"""Rebuilds tables from an archive, by its manifests and pyarrow alone, row by row as a stranger would."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Row = dict[str, Any]


@dataclass
class RebuiltTable:
    """One table; None for `rows` where the archive does not have it whole."""

    names: list[str]
    key: list[str]
    rows: list[Row] | None = field(default_factory=list)
    changes: int = 0

    def bag(self) -> Counter[tuple[Any, ...]]:
        assert self.rows is not None, "the archive does not have the table's rows"
        return Counter(tuple(row[name] for name in self.names) for row in self.rows)


def rebuilt(archive: Path, until: Callable[[Mapping[str, Any]], bool] = lambda _: True) -> dict[str, RebuiltTable]:
    """Each table by its name; `until` decides for each manifest whether it is read."""
    tables: dict[str, RebuiltTable] = {}
    for path in sorted((archive / "_manifests").iterdir()):
        manifest = json.loads(path.read_text())
        if until(manifest):
            for entry in manifest["entries"]:
                _take(archive, tables, entry)
    return tables


def entries_of(archive: Path) -> list[dict[str, Any]]:
    """The entries of all manifests, in order."""
    manifests = [json.loads(path.read_text()) for path in sorted((archive / "_manifests").iterdir())]
    return [entry for manifest in manifests for entry in manifest["entries"]]


def listed(archive: Path) -> set[str]:
    """The Parquet files that manifests name."""
    return {file for entry in entries_of(archive) for file in entry.get("files", ())}


def _take(archive: Path, tables: dict[str, RebuiltTable], entry: Mapping[str, Any]) -> None:
    name = entry["table"]["table"]
    if entry["kind"] == "end":
        del tables[name]
    elif entry["kind"] == "rename":
        moved = {one["schema"]["table"]["table"]: tables.pop(one["former"]["table"]) for one in entry["renames"]}
        for one in entry["renames"]:
            table = moved[one["schema"]["table"]["table"]]
            table.names, table.key = _shape(one["schema"])
        tables |= moved
    elif entry["kind"] == "break":
        tables[name] = RebuiltTable([], [], None)
    elif entry["kind"] == "copy":
        tables[name] = RebuiltTable(*_shape(entry["schema"]))
        found = [row for file in entry["files"] for row in _read(archive, file, entry["schema"])]
        assert {row["operation"] for row in found} <= {"r"}
        assert len(found) == entry["rows"]
        tables[name].rows = [row["after"] for row in found]
    elif entry["kind"] == "ddl":
        _restructure(tables[name], entry)
    else:
        found = [row for file in entry["files"] for row in _read(archive, file, entry["schema"])]
        assert len(found) == entry["rows"]
        numbers = [row["sequence"] for row in found]
        assert numbers == sorted(numbers)
        assert numbers[0] == entry["first"]
        assert numbers[-1] == entry["last"]
        for row in found:
            _change(tables[name], row, overlap=entry["overlap"])


def _shape(schema: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    return [column["name"] for column in schema["columns"]], schema["primaryKey"]


def _read(archive: Path, file: str, schema: Mapping[str, Any]) -> list[Row]:
    table = pq.read_table(archive / file, partitioning=None)
    assert json.loads(table.schema.metadata[b"replicator.schema"]) == schema
    return list(table.to_pylist())


def _change(table: RebuiltTable, change: Row, *, overlap: bool) -> None:
    if table.rows is None:
        return
    table.changes += 1
    after, before, operation = change["after"], change["before"], change["operation"]
    old = before if before is not None else after
    if operation in "cr" and not overlap:
        table.rows.append(after)
        return
    same = (lambda row: all(row[k] == old[k] for k in table.key)) if table.key else (lambda row: row == old)
    place = next((index for index, row in enumerate(table.rows) if same(row)), None)
    assert place is not None or overlap, "a change of a row that the archive does not have"
    kept = table.rows.pop(place) if place is not None else None
    if operation != "d":
        unchanged = change["unchanged"] or {}
        gone = [name for name, is_kept in unchanged.items() if is_kept]
        assert kept is not None or not gone
        table.rows.append({**after, **{name: (kept or {})[name] for name in gone}})


def _restructure(table: RebuiltTable, entry: Mapping[str, Any]) -> None:
    event = entry["event"]
    if event["schema"] is not None:
        table.names, table.key = _shape(event["schema"])
    if table.rows is None:
        return
    if event["operation"] == "TRUNCATE_TABLE":
        table.rows.clear()
    values = base64.b64decode(entry["values"])
    defaults = pa.ipc.open_stream(values).read_all().to_pydict() if values else {}
    for number, step in enumerate(event["alters"]):
        default = defaults.get(str(number), [step["default"]])[0]
        for row in table.rows:
            value = row.pop(step["previous"]["name"]) if step["previous"] else default
            if step["column"]:
                row[step["column"]["name"]] = value
