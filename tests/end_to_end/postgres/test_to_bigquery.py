"""Arrays and JSON of a real Postgres arrive in BigQuery as its own, through copy, changes and ALTER."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.replicator import Replicator, postgres_source
from tests.services.bigquery.emulators import PROJECT, Emulators, rows, target_settings
from tests.services.postgres.server import PostgresDatabase

_TABLE = """CREATE TABLE item (id int PRIMARY KEY, numbers int[], words text[], amounts numeric(8,2)[],
    times timestamptz[], data jsonb)"""
_ROWS = [
    """INSERT INTO item VALUES (1, '{1,2}', '{a,"b c"}', '{1.50,2}', '{2024-01-01 00:00:00+00}', '{"x": 1}')""",
    "INSERT INTO item VALUES (2, '{}', NULL, NULL, '{}', NULL)",
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", ["batch", "merge-flush"])
def test_arrays_of_postgres_are_arrays(
    postgres_database: PostgresDatabase, bigquery_emulators: Emulators, tmp_path: Path, mode: str
) -> None:
    bigquery_emulators.gate.clear()
    bigquery_emulators.write_gate.clear()
    merging = {"upsertEnabled": True, "deleteEnabled": True, "kafkaKeyFieldName": "recordKey", "mergeIntervalMs": 300}
    chosen = {"json": "json", "mode": mode, **(merging if mode == "merge-flush" else {})}
    dataset = f"d{uuid.uuid4().hex[:12]}"
    replicator = Replicator(
        tmp_path,
        postgres_source(postgres_database),
        ("bigquery", target_settings(bigquery_emulators, dataset, **chosen)),
        settings={"tables": [{"database": postgres_database.name, "schema": "public", "table": "item"}]},
    )

    def read(column: str) -> dict[int, Any]:
        sql = f"SELECT id, TO_JSON_STRING({column}) FROM `{PROJECT}`.`{dataset}`.`item`"
        found = rows(bigquery_emulators, sql)
        return {int(str(key)): None if value is None else json.loads(str(value)) for key, value in found}

    postgres_database.execute(_TABLE)
    postgres_database.execute(_ROWS[0])
    replicator.until_current()
    for statement in (*_ROWS[1:], "UPDATE item SET numbers = '{3}' WHERE id = 1"):
        postgres_database.execute(statement)
    replicator.until_current()
    assert read("numbers") == {1: [3], 2: []}
    assert read("words") == {1: ["a", "b c"], 2: []}
    assert [len(v) for v in (read("amounts")[1], read("times")[1], read("amounts")[2])] == [2, 1, 0]
    assert read("data")[1] == {"x": 1}
    postgres_database.execute("ALTER TABLE item ADD COLUMN more text[]")
    postgres_database.execute("INSERT INTO item (id, more) VALUES (3, '{z}')")
    replicator.until_current()
    assert read("more")[3] == ["z"]
