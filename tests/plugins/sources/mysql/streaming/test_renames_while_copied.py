"""Tables of equal columns that exchange their names while they are copied: each ends with its own rows."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pymysql
import pytest

from replicator_sdk import TableId
from tests.plugins.sources.mysql.pipeline import Pipeline
from tests.runtime.engine import in_memory_target
from tests.services.mysql.server import MysqlDatabase

EXCHANGE = "RENAME TABLE a TO x, b TO a, x TO b"


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("step", ["load", "loaded"])
@pytest.mark.parametrize("key", [" PRIMARY KEY", ""], ids=["key", "no key"])
def test_tables_that_exchange_names_while_they_are_copied_have_their_own_rows(
    key: str, step: str, times: int, mysql_and_mariadb: MysqlDatabase, tmp_path: Path
) -> None:
    db = mysql_and_mariadb
    for name in ("a", "b"):
        db.execute(f"CREATE TABLE {name} (id int{key}, v varchar(20))")
        db.execute(f"INSERT INTO {name} VALUES (1, '{name}')")
    pipeline = Pipeline(db, tmp_path)
    left, exchanged = [EXCHANGE] * times, list[bool]()

    def fault(at: str, table: TableId) -> None:
        if at == step and left:
            exchanged.append(_exchange(db))
            left.pop()

    in_memory_target.STORAGE.fault = fault
    for _ in range(3):
        pipeline.run()
        assert pipeline.target_rows() == pipeline.source_rows()
        for name in ("a", "b"):
            db.execute(f"INSERT INTO {name} SELECT max(id) + 1, min(v) FROM {name}")
    assert not left
    assert any(exchanged) or not key


def _exchange(db: MysqlDatabase) -> bool:
    """Exchange the names, unless a copy locks the tables for longer than a second; returns whether it was done."""
    with contextlib.closing(db.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION lock_wait_timeout = 1")
        with contextlib.suppress(pymysql.OperationalError):
            cursor.execute(EXCHANGE)
            return True
    return False
