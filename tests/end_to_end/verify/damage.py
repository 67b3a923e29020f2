"""Another program changes rows of a Delta table: read by delta-rs, changed by DuckDB, written by pyarrow, committed by hand.

delta-rs itself refuses to commit to tables with domain metadata, which is where the copies keep their progress.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder

_LOGGED_OF_A_FILE = ("path", "partitionValues", "size", "deletionVector")


def damage(table: Path, statements: Sequence[str]) -> None:
    """Carry out statements of SQL, which name the table `{}`, in one commit that rewrites the table."""
    while True:  # a run may commit meanwhile
        version = DeltaTable(table).version()
        rows = QueryBuilder().register("t", DeltaTable(table, version=version)).execute("SELECT * FROM t").read_all()
        log = _Log(table / "_delta_log", version)
        added = _write(table, _changed(pa.table(rows), statements), log.physical_names)
        actions = [{"commitInfo": {"operation": "damage"}}, *map(_removed, log.files), {"add": added}]
        try:
            with (table / "_delta_log" / f"{version + 1:020}.json").open("x") as commit:
                commit.write("".join(json.dumps(action) + "\n" for action in actions))
        except FileExistsError:
            continue
        return


def _changed(rows: pa.Table, statements: Sequence[str]) -> pa.Table:
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        database.register("found", rows)
        database.execute("CREATE TABLE damaged AS SELECT * FROM found")
        for statement in statements:
            database.execute(statement.format("damaged"))
        return database.sql("SELECT * FROM damaged").to_arrow_table().cast(rows.schema)


def _write(table: Path, rows: pa.Table, physical_names: dict[str, str]) -> dict[str, Any]:
    """Write a file; its `add` action."""
    path = table / f"damaged-{uuid.uuid4()}.parquet"
    pq.write_table(rows.rename_columns([physical_names[name] for name in rows.column_names]), path)
    return {
        "path": path.name,
        "partitionValues": {},
        "size": path.stat().st_size,
        "modificationTime": int(time.time() * 1000),
        "dataChange": True,
        "stats": json.dumps({"numRecords": rows.num_rows}),
    }


def _removed(file: dict[str, Any]) -> dict[str, Any]:
    known = {name: file[name] for name in _LOGGED_OF_A_FILE if file.get(name) is not None}
    return {"remove": {"deletionTimestamp": int(time.time() * 1000), "dataChange": True, **known}}


class _Log:
    """What a table's log says up to a version, read from its commits; a test's table still has all of them.

    Attributes:
        files: The live files, as they were added.
        physical_names: Of the columns, by their names.
    """

    def __init__(self, folder: Path, version: int) -> None:
        live: dict[str, dict[str, Any]] = {}
        fields: list[dict[str, Any]] = []
        for number in range(version + 1):
            for line in (folder / f"{number:020}.json").read_text().splitlines():
                ((kind, action),) = json.loads(line).items()
                if kind == "metaData":
                    fields = json.loads(action["schemaString"])["fields"]
                elif kind == "remove":
                    live.pop(action["path"], None)
                elif kind == "add":
                    live[action["path"]] = action
        self.files = list(live.values())
        self.physical_names = {field["name"]: field["metadata"]["delta.columnMapping.physicalName"] for field in fields}
