"""What an older version left goes on under today's code: pipeline, state, Delta tables, and what people wrote in scripts."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.end_to_end.comparison import delta_rows
from tests.end_to_end.replicator import SPARK, Replicator

OLDER = Path(__file__).parent / "fixtures" / "version_2737478"
TABLES = ("customers", "orders", "notes", "late")
STORED_OFFSET = 15
# What happens at the source before each of today's runs.
LIVES = (
    (
        "UPDATE customers SET name = 'Ada' WHERE id = 1",
        "UPDATE orders SET shop = 'west' WHERE number = 1 AND shop = 'south'",
        "DELETE FROM notes WHERE rowid = (SELECT max(rowid) FROM notes)",
        "INSERT INTO late VALUES (3, '[3]')",
    ),
    (
        "ALTER TABLE customers ADD COLUMN language TEXT DEFAULT 'en'",
        "ALTER TABLE orders RENAME COLUMN placed_at TO ordered_at",
        "INSERT INTO customers VALUES (5, 'Eve', NULL, 1, 2, 'fr')",
        "DELETE FROM orders WHERE shop = 'west'",
        "INSERT INTO notes VALUES ('same', '2026-01-01', x'00ff')",
        "UPDATE late SET document = NULL WHERE id = 1",
    ),
    (
        "UPDATE customers SET language = 'de' WHERE id = 2",
        "INSERT INTO orders VALUES ('east', 7, -1.25, NULL)",
        "DELETE FROM late WHERE id = 2",
    ),
)


class Stored(Replicator):
    """The replicator of the stored pipeline JSON."""

    def document(self) -> dict[str, Any]:
        text = (OLDER / "shop" / "pipeline.json").read_text("utf-8")
        document: dict[str, Any] = json.loads(text.replace("FOLDER", str(self.folder)))
        return document | {"spark": SPARK}  # what is stored there are settings of Spark's, with which it is slow


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    """A copy of what the older version left."""
    folder = tmp_path / "shop"
    shutil.copytree(OLDER / "shop", folder)
    return Stored(folder, ("sqlite", {}))


@pytest.mark.timeout(600)
def test_todays_replicator_goes_on_from_the_state_of_an_older_one(stored: Stored) -> None:
    assert differences(stored) == {}
    made = {table: identity(stored, table) for table in TABLES}
    offset = STORED_OFFSET
    for statements in LIVES:
        with closing(sqlite3.connect(stored.folder / "shop.db")) as shop, shop:
            for statement in statements:
                shop.execute(statement)
        ended = stored.until_current()
        assert stored.copied(ended) == []
        before, offset = offset, int(ended.envelope["data"]["offset"])
        assert offset - before >= len(statements) - sum("ALTER" in statement for statement in statements)
        assert ended.envelope["data"]["sequenceNumber"] == offset, "counted on from the stored number"
        assert differences(stored) == {}
    assert {table: identity(stored, table) for table in TABLES} == made


def test_a_run_without_that_state_says_that_it_copies(stored: Stored) -> None:
    """So that the test above cannot pass by copying everything again."""
    shutil.rmtree(stored.lake)
    shutil.rmtree(stored.state)
    assert "SNAPSHOTTING" in stored.until_current().messages
    assert differences(stored) == {}


def test_every_key_value_command_and_option_of_the_older_version_exists() -> None:
    older = json.loads((OLDER / "interface.json").read_text("utf-8"))
    printed = subprocess.run([sys.executable, OLDER / "interface.py"], capture_output=True, text=True, check=True)
    today = json.loads(printed.stdout)
    assert missing(older, today) == []
    assert all(older[section] for section in ("commands", "pipeline", "plugins"))


@pytest.mark.parametrize(
    "removed", ["commands / run / --until-current", "plugins / cdcSource sqlite / outOfRange / clamp"]
)
def test_something_removed_is_found(removed: str) -> None:
    older = json.loads((OLDER / "interface.json").read_text("utf-8"))
    today = json.loads(json.dumps(older))
    *path, last = removed.split(" / ")
    place = today
    for part in path:
        place = place[part]
    place.remove(last)
    assert missing(older, today) == [removed]


def missing(older: Any, today: Any, place: str = "") -> list[str]:
    """What is in `older` and not in `today`, by place."""
    found = [f"{place}{name}" for name in older if name not in today]
    if isinstance(older, dict):
        for name in older.keys() & today.keys():
            found += missing(older[name], today[name], f"{place}{name} / ")
    return sorted(found)


def identity(stored: Stored, table: str) -> str:
    """The identity of a Delta table, which a new one would not have."""
    return str(DeltaTable(str(stored.folder / "lake" / "main" / table)).metadata().id)


def differences(stored: Stored) -> dict[str, tuple[Counter[Any], Counter[Any]]]:
    """By table: the source's rows that the copy lacks, and the copy's rows that the source lacks."""
    found = {}
    with closing(sqlite3.connect(stored.folder / "shop.db")) as shop:
        for table in TABLES:
            columns = {name: kind for _, name, kind, *_ in shop.execute(f"PRAGMA table_info({table})")}
            source = Counter(source_rows(shop, table, columns))
            target = Counter(delta_rows(stored.folder / "lake" / "main" / table, list(columns)))
            if source != target:
                found[table] = source - target, target - source
    return found


def source_rows(shop: sqlite3.Connection, table: str, columns: dict[str, str]) -> Iterator[tuple[Any, ...]]:
    """The rows as the target's types have them."""
    for row in shop.execute(f"SELECT * FROM {table}"):
        yield tuple(None if v is None else typed(v, kind) for v, kind in zip(row, columns.values(), strict=True))


def typed(value: Any, kind: str) -> Any:
    """A stored value as the declared type means it."""
    match kind.partition("(")[0]:
        case "BOOLEAN":
            return bool(value)
        case "DECIMAL":
            return Decimal(str(value)).quantize(Decimal("0.01"))
        case "DATE":
            return date.fromisoformat(value)
        case "TIMESTAMP":
            return datetime.fromisoformat(value)
        case _:
            return value
