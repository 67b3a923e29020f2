"""`snapshot.mode` "only" with a condition, real servers into Delta: the copy is exact, and nothing of the replicator stays at the source."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.comparison import delta_rows
from tests.end_to_end.replicator import Replicator, mysql_source, postgres_source

_EVEN = "id % 2 = 0 AND name <> 'row 3'"


@pytest.mark.parametrize("kind", ["postgres", "mysql"])
def test_a_copy_is_exact_and_the_source_is_released(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> None:
    db: Any = request.getfixturevalue(f"{kind}_database")
    is_postgres = kind == "postgres"
    rows = db.execute if is_postgres else db.query
    for table, key in (("item", " PRIMARY KEY"), ("note", "")):
        db.execute(f"CREATE TABLE {table} (id int{key}, name varchar(20))")
        if is_postgres:
            db.execute(f"ALTER TABLE {table} REPLICA IDENTITY FULL")
        db.execute(f"INSERT INTO {table} VALUES " + ", ".join(f"({n}, 'row {n % 7}')" for n in range(40)))
    named = {"database": db.name}
    replicator = Replicator(
        tmp_path,
        postgres_source(db) if is_postgres else mysql_source(db.server),
        settings={
            "snapshot": {"mode": "only", "order": ["note"], "maxRowsPerSecond": 10000},
            "tables": [{**named, "table": "item", "where": _EVEN}, {**named, "table": "note"}],
        },
    )
    ended = replicator.run()
    assert ended.status == 0, ended.messages
    folder = replicator.lake / "public" if is_postgres else replicator.lake / db.name

    def copied(table: str) -> Counter[tuple[Any, ...]]:
        return Counter(delta_rows(folder / table, ["id", "name"]))

    notes = Counter(rows("SELECT id, name FROM note"))
    assert copied("note") == notes
    assert copied("item") == Counter(rows(f"SELECT id, name FROM item WHERE {_EVEN}"))
    db.execute("DELETE FROM note WHERE id < 5")
    db.execute("ALTER TABLE note ADD COLUMN late int")
    refused = replicator.run()
    assert (refused.status, refused.error["code"]) == (3, "RPL-2064"), refused.messages
    assert copied("note") == notes
    asked = replicator.start_command("table", "resync", str(replicator.pipeline), "note", "--yes").wait()
    assert (asked.status, asked.error["code"]) == (3, "RPL-2064"), asked.messages
    if is_postgres:
        assert db.execute("SELECT slot_name FROM pg_replication_slots WHERE database = current_database()") == []
        assert db.execute("SELECT pubname FROM pg_publication") == []
