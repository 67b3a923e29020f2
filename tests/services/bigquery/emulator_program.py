"""Starts the BigQuery emulator with one defect fixed: its Storage Write API forgets the fields inside STRUCT columns.

Run by the emulator's own interpreter, so it imports nothing of ours, and what it imports is not there for ours.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

if __name__ == "__main__":
    tables: Any = import_module("bqemulator.api.routes.tabledata")
    writing: Any = import_module("bqemulator.grpc_api.write_servicer")
    writing._table_arrow_schema = lambda table: tables._build_arrow_schema(
        tables._fields_raw_from_schema(table.schema_.fields)
    )
    import_module("bqemulator.cli").main()
