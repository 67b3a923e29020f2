"""Tables of equal columns are renamed and exchange their names at random: no row ends in another table."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.sources.postgres.pipeline import Host, Pipeline
from tests.plugins.sources.rename_storm import SEEDS, Storm, only_in_soak
from tests.runtime.engine import in_memory_target
from tests.services.postgres.server import PostgresDatabase

_COLUMNS = "(id int, v text)"


def _create(name: str, kind: str) -> list[str]:
    if kind == "bag":
        return [f"CREATE TABLE {name} {_COLUMNS}", f"ALTER TABLE {name} REPLICA IDENTITY FULL"]
    if kind == "key":
        return [f"CREATE TABLE {name} (id int PRIMARY KEY, v text)"]
    part = f"PARTITION OF {name} FOR VALUES FROM"
    return [
        f"CREATE TABLE {name} (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
        f"CREATE TABLE parts.p{random.getrandbits(40)} {part} (0) TO (30)",
        f"CREATE TABLE parts.p{random.getrandbits(40)} {part} (30) TO (100000)",
    ]


def _rename(names: dict[str, str]) -> list[str]:
    """Through another schema, where all names are free."""
    away = [f"ALTER TABLE public.{name} SET SCHEMA away" for name in names]
    back = [
        statement
        for rank, (name, to) in enumerate(names.items())
        for statement in (f"ALTER TABLE away.{name} RENAME TO m{rank}", f"ALTER TABLE away.m{rank} SET SCHEMA public",
                          f"ALTER TABLE public.m{rank} RENAME TO {to}")
    ]  # fmt: skip
    return away + back


@pytest.mark.timeout(300)
@only_in_soak
@pytest.mark.parametrize("seed", SEEDS)
def test_tables_that_are_renamed_at_random_have_their_own_rows(
    seed: int, postgres_database: PostgresDatabase, tmp_path: Path
) -> None:
    db = postgres_database
    db.execute("CREATE SCHEMA parts; CREATE SCHEMA away")
    chance = random.Random(seed)
    pipeline = Pipeline(db, tmp_path, heartbeatIntervalSeconds=chance.choice([0.1, 1.0]))
    pipeline.document["tables"] = [{"database": db.name, "schema": "public", "table": "*"}]
    pipeline.document["newTablesIntervalSeconds"] = 1

    def execute(statements: Sequence[str]) -> None:
        with db.connect() as connection, connection.transaction():
            for statement in statements:
                connection.execute(statement.encode())

    storm = Storm(execute, _create, _rename, chance, pipeline.document, Host())

    def source() -> dict[str, list[Any]]:
        return {name: sorted(map(tuple, db.execute(f"SELECT * FROM {name}"))) for name in storm.kinds}

    def target() -> dict[str, list[Any]]:
        kept = in_memory_target.STORAGE.tables
        return {table.table: sorted(rows.rows.elements()) for table, rows in kept.items() if table.schema == "public"}

    storm.whole(source, target, seconds=15)
