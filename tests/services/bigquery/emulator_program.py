"""Starts the BigQuery emulator with three defects fixed.

Its Storage Write API forgets the fields inside STRUCT columns. It parses the text of a statement again in each of its
steps, which takes more than half of its processor time. And it copies a table at each write to it and keeps the copies in memory for
a week, so that a statement may ask for the table of an earlier time, which none of ours does: ten gigabytes in a quarter of an hour.

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


def keep_no_history() -> None:
    """Let a write be announced, and the table not be copied."""
    snapshots: Any = import_module("bqemulator.versioning.snapshots")

    def record_change(manager: Any, project_id: str, dataset_id: str, table_id: str) -> None:
        manager._events.publish(snapshots.TableDataChanged(project_id, dataset_id, table_id))

    snapshots.SnapshotManager.record_change = record_change


if __name__ == "__main__":
    parse_once()  # before the emulator's modules take the function
    tables: Any = import_module("bqemulator.api.routes.tabledata")
    writing: Any = import_module("bqemulator.grpc_api.write_servicer")
    writing._table_arrow_schema = lambda table: tables._build_arrow_schema(
        tables._fields_raw_from_schema(table.schema_.fields)
    )
    keep_no_history()
    import_module("bqemulator.cli").main()
