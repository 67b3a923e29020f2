"""Compares shop and lake with readers that share no code with the replicator: `sqlite3` and `deltalake`."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from replicator_sdk.errors import NeedsUserError

NO_READER = "RPL-1302"

# Declared type → the value that a right copy holds.
_MEANING: Mapping[str, Callable[[Any], Any]] = {
    "BOOLEAN": bool,
    "DATE": date.fromisoformat,
    "TIMESTAMP": datetime.fromisoformat,
    "DECIMAL(10,2)": lambda value: Decimal(str(value)).quantize(Decimal("0.01")),
    "DECIMAL(8,2)": lambda value: Decimal(str(value)).quantize(Decimal("0.01")),
}


@dataclass(frozen=True, slots=True)
class TableComparison:
    """One table of the shop and its copy, compared as multisets of rows.

    Attributes:
        table: Its name.
        source_rows: Rows in the shop.
        target_rows: Rows in the lake.
        missing: Rows of the shop that the lake lacks, counting repetition.
        surplus: Rows of the lake that the shop does not have, counting repetition.
    """

    table: str
    source_rows: int
    target_rows: int
    missing: int
    surplus: int

    @property
    def equal(self) -> bool:
        """Whether both hold the same rows equally often."""
        return not self.missing and not self.surplus

    def to_json(self) -> dict[str, Any]:
        """The JSON form printed by `replicator demo --json`."""
        return {
            "table": self.table,
            "sourceRows": self.source_rows,
            "targetRows": self.target_rows,
            "missing": self.missing,
            "surplus": self.surplus,
            "equal": self.equal,
        }


def require_reader() -> None:
    """Make sure the lake can be read independently.

    Raises:
        NeedsUserError: When `deltalake` is not installed.
    """
    try:
        import deltalake  # noqa: F401
    except ImportError as error:
        raise NeedsUserError(
            "the demo reads the Delta tables with the package deltalake, which is not installed",
            code=NO_READER,
            hint="pip install deltalake",
        ) from error


def compare(shop: Path, lake: Path) -> list[TableComparison]:
    """Compare every table of the shop with its copy under `lake`, sorted by name."""
    with closing(sqlite3.connect(shop)) as connection:
        query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
        names = sorted(name for (name,) in connection.execute(query) if not name.startswith("_replicator"))
        return [_compare(connection, name, lake / "main" / name) for name in names]


def _compare(connection: sqlite3.Connection, table: str, copy: Path) -> TableComparison:
    columns = [(row[1], row[2].upper()) for row in connection.execute(f'PRAGMA table_info("{table}")')]
    source = Counter(_source_rows(connection, table, columns))
    target = Counter(_target_rows(copy, [name for name, _ in columns]))
    return TableComparison(table, source.total(), target.total(), (source - target).total(), (target - source).total())


def _source_rows(
    connection: sqlite3.Connection, table: str, columns: list[tuple[str, str]]
) -> Iterator[tuple[Any, ...]]:
    meanings = [_MEANING.get(kind, lambda value: value) for _, kind in columns]
    for row in connection.execute(f'SELECT * FROM "{table}"'):  # noqa: S608 - the demo's own tables
        yield tuple(None if value is None else mean(value) for mean, value in zip(meanings, row, strict=True))


def _target_rows(copy: Path, columns: list[str]) -> Iterator[tuple[Any, ...]]:
    if not (copy / "_delta_log").is_dir():
        return
    from deltalake import DeltaTable, QueryBuilder

    listed = ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
    query = f"SELECT {listed} FROM copy"  # noqa: S608 - the demo's own tables
    batches = QueryBuilder().register("copy", DeltaTable(str(copy))).execute(query)
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in _arrow_columns(batch)), strict=True)


def _arrow_columns(batch: Any) -> list[Any]:
    import pyarrow as pa

    return list(pa.record_batch(batch).columns)
