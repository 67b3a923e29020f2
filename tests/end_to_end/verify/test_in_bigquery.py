"""`verify`, `verify --repair` and `heal` with tables in BigQuery, in the modes in which these are the source's at a position."""

from __future__ import annotations

import sqlite3
import uuid
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.crash.kills import killed
from tests.end_to_end.verify.shop import Shop, compared, counts, sqlite_shop
from tests.services.bigquery.emulators import PROJECT, Emulators, rows, target_settings

_MERGING = {
    "mode": "merge-flush",
    "upsertEnabled": True,
    "deleteEnabled": True,
    "kafkaKeyFieldName": "recordKey",
    "mergeIntervalMs": 200,
}
_DAMAGE = (
    "DELETE FROM {} WHERE id IN (100, 101)",
    "UPDATE {} SET name = 'damaged' WHERE id BETWEEN 110 AND 112",
    "UPDATE {} SET price = NULL WHERE id = 120",
    "INSERT INTO {0} SELECT * FROM {0} WHERE id = 130",
    "UPDATE {} SET id = 90000 WHERE id = 140",
)
_FOUND = (3, 2, 4)
"""Of the items: missing, surplus and different."""


def bigquery_shop(emulators: Emulators, folder: Path, **settings: Any) -> Shop:
    """A shop whose copies are in a dataset of the test's own."""
    emulators.gate.clear()
    emulators.write_gate.clear()
    dataset = f"d{uuid.uuid4().hex[:12]}"
    shop = sqlite_shop(folder)
    shop.replicator = replace(shop.replicator, target=("bigquery", target_settings(emulators, dataset, **settings)))
    return replace(shop, folder=dataset)


def damage(emulators: Emulators, shop: Shop, table: str, *statements: str) -> None:
    """Another program writes to the table in the dataset, which `{}` names."""
    for statement in statements:
        rows(emulators, statement.format(f"`{PROJECT}`.`{shop.folder}`.`{table}`"))


def assert_equal(emulators: Emulators, shop: Shop, *tables: str) -> None:
    """The same rows on both sides, read by none of the code under test."""
    for table in tables:
        with closing(sqlite3.connect(shop.replicator.folder / "shop.db")) as database:
            cursor = database.execute(f"SELECT * FROM {table}")
            names = [column[0] for column in cursor.description]
            source = Counter(tuple(map(_text, row)) for row in cursor)
        found = rows(emulators, f"SELECT {', '.join(names)} FROM `{PROJECT}`.`{shop.folder}`.`{table}`")
        assert Counter(tuple(map(_text, row)) for row in found) == source, table


def _text(value: object) -> str:
    try:
        return f"{float(str(value)):g}"
    except ValueError:
        return str(value)


def test_damage_is_found_and_repaired_while_a_run_goes_on_and_a_lost_log_is_healed(
    bigquery_emulators: Emulators, tmp_path: Path
) -> None:
    shop = bigquery_shop(bigquery_emulators, tmp_path)
    shop.begin()
    running = shop.replicator.start()
    shop.wait_until_replicating()
    damage(bigquery_emulators, shop, "item", *_DAMAGE)
    damage(bigquery_emulators, shop, "part", "DELETE FROM {} WHERE b = 'b190'")
    ended = shop.verify("--repair", "--yes")
    assert ended.status == 0, ended.messages
    found = compared(ended)
    assert (counts(found["item"]), counts(found["part"]), counts(found["visit"])) == (_FOUND, (1, 0, 0), (0, 0, 0))
    assert {name: one["result"] for name, one in found.items()} == {
        "item": "repaired", "part": "repaired", "visit": "equal",
    }  # fmt: skip
    assert (found["item"]["repaired"]["written"], found["item"]["repaired"]["deleted"]) == (8, 1)
    assert running.stop().status == 143
    shop.replicator.until_current()
    assert_equal(bigquery_emulators, shop, "item", "part", "visit")
    shop.execute(
        "UPDATE item SET name = 'in the gap' WHERE id = 60",
        "DELETE FROM part WHERE b = 'b61'",
        "INSERT INTO item VALUES (7000, 'in the gap', 1)",
        "UPDATE _replicator_facts SET value = (SELECT max(id) FROM _replicator_changes) WHERE name = 'pruned'",
        "DELETE FROM _replicator_changes WHERE id < (SELECT max(id) FROM _replicator_changes)",
    )
    healed = shop.replicator.start_command("heal", str(shop.replicator.pipeline), "--yes").wait()
    assert healed.status == 0, healed.messages
    shop.execute("UPDATE item SET name = 'after it' WHERE id = 62")
    shop.replicator.until_current()
    assert_equal(bigquery_emulators, shop, "item", "part", "visit")


def test_a_repair_that_is_killed_is_done_by_the_next_run_and_three_runs_are_equal(
    bigquery_emulators: Emulators, tmp_path: Path
) -> None:
    shop = bigquery_shop(bigquery_emulators, tmp_path, **_MERGING)
    shop.begin()
    shop.execute("DROP TABLE visit")  # it has no key
    shop.replicator.until_current()
    damage(bigquery_emulators, shop, "item", *_DAMAGE)
    found = shop.verify("--show-keys")
    assert found.status == 5, found.messages
    assert counts(compared(found)["item"]) == _FOUND
    assert {"key": {"id": 90000}, "is": ["surplus"]} in compared(found)["item"]["keys"]
    point = "bigquery.staging.loaded"  # repairs alone stage rows here
    command = ("verify", str(shop.replicator.pipeline), "--repair", "--yes")
    killed(shop.replicator.start_command(*command, REPLICATOR_FAILPOINTS=f"{point}=kill"), point)
    for number in range(3):
        shop.execute(
            f"UPDATE item SET name = 'run {number}' WHERE id = 10",
            f"INSERT INTO part (a, b) VALUES (1, 'new {number}')",
            *(("ALTER TABLE part ADD COLUMN later INTEGER DEFAULT 4",) if number == 1 else ()),
        )
        shop.replicator.until_current()
        assert_equal(bigquery_emulators, shop, "item", "part")
