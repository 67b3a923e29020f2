"""`snapshot.mode` "never", real servers into Delta: tables begin empty, and have every change from then on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.comparison import delta_rows
from tests.end_to_end.replicator import Replicator, mysql_source, postgres_source


@pytest.mark.parametrize("kind", ["postgres", "mysql"])
def test_tables_begin_empty_and_follow(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> None:
    db: Any = request.getfixturevalue(f"{kind}_database")
    is_postgres = kind == "postgres"
    for table, key in (("item", " PRIMARY KEY"), ("note", "")):
        db.execute(f"CREATE TABLE {table} (id int{key}, name {'text' if is_postgres else 'varchar(20)'})")
        db.execute(f"INSERT INTO {table} VALUES " + ", ".join(f"({n}, 'row {n}')" for n in range(9)))
    if is_postgres:
        db.execute("ALTER TABLE note REPLICA IDENTITY FULL")
    replicator = Replicator(
        tmp_path,
        postgres_source(db) if is_postgres else mysql_source(db.server),
        settings={
            "snapshot": {"mode": "never"},
            "tables": [{"database": db.name, "table": "item"}, {"database": db.name, "table": "note"}],
        },
    )
    folder = replicator.lake / ("public" if is_postgres else db.name)

    def copied(table: str, *more: str) -> list[tuple[Any, ...]]:
        return sorted(delta_rows(folder / table, ["id", "name", *more]))

    if is_postgres:  # updates of long values would lack them
        refused = replicator.run("--until-current")
        assert (refused.status, refused.error["code"]) == (3, "RPL-2062"), refused.messages
        assert "REPLICA IDENTITY FULL" in refused.error["hint"]
        db.execute("ALTER TABLE item REPLICA IDENTITY FULL")
    replicator.until_current()
    assert copied("item") == copied("note") == []
    db.execute("UPDATE item SET name = 'changed' WHERE id = 3")
    db.execute("DELETE FROM item WHERE id = 4")
    db.execute("DELETE FROM note WHERE id = 4")
    db.execute("ALTER TABLE item ADD COLUMN late int")
    db.execute("INSERT INTO item VALUES (100, 'new', 1)")
    db.execute("INSERT INTO note VALUES (100, 'new')")
    replicator.until_current()
    assert copied("item", "late") == [(3, "changed", None), (100, "new", 1)]
    assert copied("note") == [(100, "new")]
