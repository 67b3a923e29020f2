"""Starts the BigQuery emulator with two defects fixed.

Its Storage Write API forgets the fields inside STRUCT columns, and it parses the text of a statement again in each of its
steps, which takes more than half of its processor time.

Run by the emulator's own interpreter, so it imports nothing of ours, and what it imports is not there for ours.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Any


def parse_once() -> None:
    """Let a text that was parsed or translated lately not be parsed or translated again.

    Each caller gets a tree or list of its own, since callers change theirs. What fails is not kept: it fails again.
    """
    sqlglot: Any = import_module("sqlglot")
    parsed, transpiled = lru_cache(maxsize=256)(sqlglot.parse_one), lru_cache(maxsize=256)(sqlglot.transpile)

    def parse_one(*arguments: Any, **options: Any) -> Any:
        return parsed(*arguments, **options).copy()

    def transpile(*arguments: Any, **options: Any) -> Any:
        return list(transpiled(*arguments, **options))

    sqlglot.parse_one, sqlglot.transpile = parse_one, transpile


if __name__ == "__main__":
    parse_once()  # before the emulator's modules take the function
    tables: Any = import_module("bqemulator.api.routes.tabledata")
    writing: Any = import_module("bqemulator.grpc_api.write_servicer")
    writing._table_arrow_schema = lambda table: tables._build_arrow_schema(
        tables._fields_raw_from_schema(table.schema_.fields)
    )
    import_module("bqemulator.cli").main()
