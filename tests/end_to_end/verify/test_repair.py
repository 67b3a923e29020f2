"""`replicator verify --repair` makes a damaged copy equal again, by the run's own writes, and writes no other rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.comparison import delta_rows
from tests.end_to_end.verify.shop import Shop, compared, counts, server_shop, sqlite_shop

_DAMAGE = (
    "DELETE FROM {} WHERE id IN (100, 101)",
    "UPDATE {} SET name = 'damaged' WHERE id BETWEEN 110 AND 112",
    "UPDATE {} SET price = NULL WHERE id = 120",
    "INSERT INTO {0} SELECT * FROM {0} WHERE id = 130",
    "UPDATE {} SET id = 90000 WHERE id = 140",
)
"""Of the items: seven rows to write (140 is one of them), one that the source never had, and one that is there twice."""
_FOUND = (3, 2, 4)
_PARTS = ("UPDATE {} SET n = NULL WHERE a = 1 AND b = 'b190'", "DELETE FROM {} WHERE b = 'b191'")


@pytest.fixture(params=["sqlite", "postgres"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Shop:
    return sqlite_shop(tmp_path) if request.param == "sqlite" else server_shop(request, request.param, tmp_path)


def repair(shop: Shop, *arguments: str) -> dict[str, Any]:
    """Repair all tables; the tables of the report, which says that all are equal."""
    ended = shop.verify("--repair", "--yes", *arguments)
    assert ended.status == 0, ended.messages
    assert ended.envelope["data"]["equal"]
    return dict(compared(ended))


@pytest.mark.timeout(1800)
def test_damage_is_repaired_exactly_while_a_run_goes_on_and_all_tables_are_written(shop: Shop) -> None:
    shop.begin()
    running = shop.replicator.start()
    shop.wait_until_replicating()
    shop.damage("item", *_DAMAGE)
    shop.damage("part", *_PARTS)
    with shop.written():
        found = repair(shop)
    assert counts(found["item"]) == _FOUND
    done = {name: found[name]["repaired"] for name in found}
    assert done["visit"] is None
    assert (done["item"]["written"], done["item"]["deleted"]) == (8, 1)
    assert (done["part"]["written"], done["part"]["deleted"]) == (2, 0)
    assert (found["item"]["result"], found["part"]["result"], found["visit"]["result"]) == (
        "repaired", "repaired", "equal",
    )  # fmt: skip
    again = shop.verify()
    assert again.status == 0, again.messages
    assert running.stop().status == 143
    assert rows_of_repairs(shop, "item") == 8


def rows_of_repairs(shop: Shop, table: str) -> int:
    """How many rows repairs wrote to the table, by its log."""
    log = shop.replicator.lake / shop.folder / table / "_delta_log"
    commits = [text for path in log.glob("*.json") if '"repair-' in (text := path.read_text())]
    assert commits
    actions = [json.loads(line) for commit in commits for line in commit.splitlines()]
    adds = [action["add"] for action in actions if "add" in action]
    # A compaction goes on from the table's position, which the repair has given its name, and changes no data.
    new = [add for add in adds if add["dataChange"] and not add.get("deletionVector")]
    return sum(json.loads(add["stats"])["numRecords"] for add in new)


def test_without_a_run_the_command_repairs_by_itself_what_it_can(tmp_path: Path) -> None:
    shop = sqlite_shop(tmp_path)
    shop.begin()
    shop.replicator.until_current()
    shop.damage("item", *_DAMAGE)
    shop.damage("visit", "DELETE FROM {} WHERE who = 9 AND page IS NULL")
    asked = shop.verify("--repair")
    assert (asked.status, asked.error["code"]) == (3, "RPL-1228"), asked.messages
    items = shop.replicator.lake / "main" / "item"
    assert 90000 in dict(delta_rows(items, ["id", "name"]))
    ended = shop.verify("--repair", "--yes")
    found = compared(ended)
    assert ended.status == 5, ended.messages
    assert {name: table["result"] for name, table in found.items()} == {
        "item": "repaired", "part": "equal", "visit": "different",
    }  # fmt: skip
    assert found["visit"]["repaired"]["error"]["code"] == "RPL-1371"
    assert counts(found["visit"]) == (13, 0, 0)
    rows = delta_rows(items, ["id", "name"])
    assert sorted(rows) == [(n, f"row {n}") for n in range(200)]
