"""Tables of equal columns are renamed and exchange their names at random: no row ends in another table."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.sources.rename_storm import SEEDS, Storm, only_in_soak
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.in_memory_target import TargetStorage
from tests.runtime.engine.test_run import Host, Shop


def _create(name: str, kind: str) -> list[str]:
    return [f"CREATE TABLE {name} (id INTEGER{'' if kind == 'bag' else ' PRIMARY KEY'}, v TEXT)"]


def _rename(names: dict[str, str]) -> list[str]:
    away = [f"ALTER TABLE {name} RENAME TO m{rank}" for rank, name in enumerate(names)]
    return [*away, *(f"ALTER TABLE m{rank} RENAME TO {to}" for rank, to in enumerate(names.values()))]


@pytest.mark.timeout(300)
@only_in_soak
@pytest.mark.parametrize("seed", SEEDS)
def test_tables_that_are_renamed_at_random_have_their_own_rows(seed: int, tmp_path: Path) -> None:
    in_memory_target.STORAGE = TargetStorage()
    shop = Shop(tmp_path)
    shop.sql("DROP TABLE customers", "DROP TABLE notes")
    shop.document["newTablesIntervalSeconds"] = 1

    def execute(statements: Sequence[str]) -> None:
        with contextlib.closing(sqlite3.connect(shop.path, timeout=30, isolation_level=None)) as database:
            for statement in ("BEGIN IMMEDIATE", *statements, "COMMIT"):
                database.execute(statement)

    storm = Storm(execute, _create, _rename, random.Random(seed), shop.document, Host(), longer="v || '!'")

    def source() -> dict[str, list[Any]]:
        with contextlib.closing(sqlite3.connect(shop.path, timeout=30)) as database:
            return {name: sorted(database.execute(f"SELECT * FROM {name}")) for name in storm.kinds}

    def target() -> dict[str, list[Any]]:
        kept = in_memory_target.STORAGE.tables
        return {table.table: sorted(rows.rows.elements()) for table, rows in kept.items()}

    storm.whole(source, target, seconds=15)
