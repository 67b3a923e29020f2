from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from replicator_runtime.demo.comparison import TableComparison, compare

ROWS: list[tuple[Any, ...]] = [
    (1, "é🦊", 1, 0.1, "12.30", "2024-02-29", "2024-01-01 09:00:00.000001", b"\x00\xff"),
    (2, None, 0, None, None, None, None, None),
    (2, None, 0, None, None, None, None, None),
]
COPY = {
    "n": [1, 2, 2],
    "t": ["é🦊", None, None],
    "b": [True, False, False],
    "r": [0.1, None, None],
    "d": pa.array([Decimal("12.30"), None, None], pa.decimal128(8, 2)),
    "day": [date(2024, 2, 29), None, None],
    "at": pa.array([datetime(2024, 1, 1, 9, 0, 0, 1), None, None], pa.timestamp("us")),
    "x": [b"\x00\xff", None, None],
}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection, connection:
        connection.execute(
            'CREATE TABLE "a table" (n INTEGER, t TEXT, b BOOLEAN, r REAL, d DECIMAL(8,2), day DATE, at TIMESTAMP, x BLOB)'
        )
        connection.executemany('INSERT INTO "a table" VALUES (?,?,?,?,?,?,?,?)', ROWS)
        connection.execute("CREATE TABLE _replicator_changes (id INTEGER)")
    return tmp_path / "shop.db"


def copied(lake: Path, **changes: Any) -> None:
    write_deltalake(str(lake / "main" / "a table"), pa.table({**COPY, "_sequence_num": [1, 2, 3], **changes}))


def test_equal_values_of_every_type_are_equal_and_own_columns_are_left_out(shop: Path, tmp_path: Path) -> None:
    copied(tmp_path / "lake")
    (found,) = compare(shop, tmp_path / "lake")
    assert found == TableComparison("a table", 3, 3, 0, 0)
    assert found.equal


@pytest.mark.parametrize(
    "changes",
    [
        {"n": [1, 2, 3]},
        {"t": ["e🦊", None, None]},
        {"t": ["é🦊", None, ""]},
        {"b": [True, False, True]},
        {"b": [False, False, False]},
        {"r": [0.1, None, 0.0]},
        {"d": pa.array([Decimal("12.31"), None, None], pa.decimal128(8, 2))},
        {"at": pa.array([datetime(2024, 1, 1, 9), None, None], pa.timestamp("us"))},
        {"x": [b"\x00", None, None]},
    ],
)
def test_one_value_that_differs_is_one_row_missing_and_one_too_many(
    shop: Path, tmp_path: Path, changes: dict[str, Any]
) -> None:
    copied(tmp_path / "lake", **changes)
    (found,) = compare(shop, tmp_path / "lake")
    assert (found.missing, found.surplus, found.equal) == (1, 1, False)


def test_equal_rows_are_counted(shop: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(shop)) as connection, connection:
        connection.execute('DELETE FROM "a table" WHERE rowid = 3')
    copied(tmp_path / "lake")
    (found,) = compare(shop, tmp_path / "lake")
    assert (found.source_rows, found.target_rows, found.missing, found.surplus) == (2, 3, 0, 1)


def test_a_table_that_never_arrived_is_missing_with_all_its_rows(shop: Path, tmp_path: Path) -> None:
    (found,) = compare(shop, tmp_path / "lake")
    assert (found.missing, found.equal) == (3, False)
