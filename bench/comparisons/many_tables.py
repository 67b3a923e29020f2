"""The first load of many small tables: a thousand tables of a Postgres into Delta, and the share of keeping records.

Nothing but the number of tables is large here: what is measured is the cost of a table, not of its rows.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

from deltalake import DeltaTable

from bench.bookkeeping import seconds_in
from bench.comparisons.turns import Plan, scratch
from bench.data.postgres_orders import Orders
from bench.measure import Book, Measured
from bench.process import run

TABLES: Final = "tables"
COUNTS: Final = (100, 1_000)
_COLUMNS: Final = 30
_ROWS: Final = 10
_AT_ONCE: Final = 4  # tables, by default
_COMMAND: Final = [sys.executable, "-m", "bench.bookkeeping", "run"]


def many_tables(orders: Orders, plan: Plan, book: Book) -> None:
    """Each number of tables in a schema of its own."""
    for number in range(plan.rounds):
        for count in COUNTS:
            _fill(orders, count)
            with scratch(plan.folder / f"tables_{count}_{number}") as folder:
                book.add(_first_load(orders, folder, count, number))
            orders.forget()


def seconds(count: int) -> str:
    """The name of the whole run's number in the book."""
    return f"s, first load of {count:,} tables"


def share(count: int) -> str:
    """The name of the records' share: of the time of all threads that copy."""
    return f"% of the copies' time for records, {count:,} tables"


def _first_load(orders: Orders, folder: Path, count: int, number: int) -> list[Measured]:
    folder.mkdir(parents=True)
    pipeline = folder / "pipeline.json"
    pipeline.write_text(json.dumps(_document(orders, folder, count)))
    cost = run([*_COMMAND, pipeline, "--until-current", "--log-level", "warning"], folder / "log")
    kept = seconds_in((folder / "log").read_text(errors="replace"))
    whole = sum(bool(DeltaTable(str(table)).file_uris()) for table in (folder / "lake" / _schema(count)).iterdir())
    if whole != count:
        raise AssertionError(f"{whole} of {count} tables are at the target")
    return [
        Measured(TABLES, "ours", seconds(count), cost.seconds, number, cost),
        Measured(TABLES, "ours", share(count), 100 * kept / (_AT_ONCE * cost.seconds), number),
        Measured(TABLES, "ours", f"ms a table, {count:,} tables", 1000 * cost.seconds / count, number),
        Measured(TABLES, "ours", f"ms a table for records, {count:,} tables", 1000 * kept / count, number),
    ]


def _schema(count: int) -> str:
    return f"tables_{count}"


def _fill(orders: Orders, count: int) -> None:
    """The tables, and a publication of them, once."""
    schema = _schema(count)
    if orders.execute(f"SELECT 1 FROM pg_namespace WHERE nspname = '{schema}'"):
        return
    columns = ", ".join(f"c{i} text" for i in range(_COLUMNS - 1))
    values = ", ".join("'value ' || i" for _ in range(_COLUMNS - 1))
    orders.execute(f"CREATE SCHEMA {schema}")
    for number in range(count):
        table = f"{schema}.t{number}"
        orders.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, {columns})")
        orders.execute(f"INSERT INTO {table} SELECT i, {values} FROM generate_series(1, {_ROWS}) AS i")
    orders.execute(f"CREATE PUBLICATION {schema} FOR TABLES IN SCHEMA {schema}")


def _document(orders: Orders, folder: Path, count: int) -> dict[str, object]:
    schema = _schema(count)
    properties = {**orders.properties(schema), "publication": schema}
    source = {"name": "postgres", "type": "cdcSource", "properties": properties}
    target = {"name": "delta", "type": "cdcTarget", "properties": {"path": str(folder / "lake")}}
    return {
        "name": "tables",
        "offsetBasePath": str(folder / "state"),
        "stages": [{"name": "in", "plugin": source}, {"name": "out", "plugin": target}],
        "connections": [{"from": "in", "to": "out"}],
        "tables": [{"schema": schema, "table": "*"}],
        "retries": {"maxDurationSeconds": 60},
    }
