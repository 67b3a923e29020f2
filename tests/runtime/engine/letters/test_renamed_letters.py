"""Rows that are put aside are listed and read again under the name that their table has now."""

from __future__ import annotations

import pytest

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.control.control import carry_out_alone
from replicator_runtime.engine.letters.letter_file import row_counts
from replicator_state import Outcome, ReplicatorDirectory
from tests.runtime.engine.in_memory_target import InMemoryTarget
from tests.runtime.engine.requests import requests
from tests.runtime.engine.test_run import Host, Shop, shop

__all__ = ["shop"]


@pytest.fixture
def refusing(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """Its table `items` has one row that is put aside."""
    monkeypatch.setattr(InMemoryTarget, "takes_lane", True, raising=False)
    shop.document["onDataError"] = "lane"
    shop.sql("CREATE TABLE items (id INTEGER PRIMARY KEY, size INTEGER)", "INSERT INTO items VALUES (1, 1), (2, 'XL')")
    shop.run()
    assert aside(shop) == {"items": 1}
    return shop


def aside(shop: Shop) -> dict[str, int]:
    folder = ReplicatorDirectory(shop.document["offsetBasePath"], "default", "shop").dead_letters()
    return {table.table: rows for table, rows in row_counts(folder).items() if rows}


def replay(shop: Shop, *tables: str) -> Outcome:
    return command(shop, "dead-letters.replay", tables=list(tables))


def command(shop: Shop, name: str, **arguments: object) -> Outcome:
    request = requests(shop).submit(name, arguments)
    carry_out_alone(build_pipeline(shop.document, host=Host()))  # type: ignore[arg-type]
    found = requests(shop).outcome(request.request_id)
    assert found is not None
    return found


def test_the_rows_of_a_renamed_table_are_listed_under_its_new_name_beside_those_of_its_successor(
    refusing: Shop,
) -> None:
    refusing.sql("ALTER TABLE items RENAME TO former_items")
    refusing.run()
    assert aside(refusing) == {"former_items": 1}
    assert replay(refusing, "items").code == "RPL-1220"
    refusing.sql(
        "CREATE TABLE items (id INTEGER PRIMARY KEY, size INTEGER)", "INSERT INTO items VALUES (1, 'S'), (2, 'M')"
    )
    refusing.run()
    assert aside(refusing) == {"items": 2, "former_items": 1}
    refusing.sql("UPDATE former_items SET size = 2 WHERE id = 2")
    assert replay(refusing, "former_items").state == "done"
    for _ in range(2):
        refusing.run()
        refusing.assert_equal("former_items")
        assert aside(refusing) == {"items": 2}
        refusing.sql("INSERT INTO former_items (size) VALUES (4)")


def test_two_tables_that_exchange_names_have_the_rows_of_each(refusing: Shop) -> None:
    refusing.sql(
        "CREATE TABLE parts (id INTEGER PRIMARY KEY, size INTEGER)", "INSERT INTO parts VALUES (1, 'S'), (2, 'M')"
    )
    refusing.run()
    assert aside(refusing) == {"items": 1, "parts": 2}
    refusing.sql(
        "ALTER TABLE items RENAME TO spare", "ALTER TABLE parts RENAME TO items", "ALTER TABLE spare RENAME TO parts"
    )
    for _ in range(2):
        refusing.run()
        assert aside(refusing) == {"items": 2, "parts": 1}
    refusing.sql("UPDATE items SET size = 5", "DELETE FROM parts WHERE id = 2")
    refusing.run()
    refusing.assert_equal("items", "parts")
    assert aside(refusing) == {}


def test_a_replay_of_all_tables_leaves_out_the_paused_one_and_says_so(refusing: Shop) -> None:
    refusing.sql("CREATE TABLE parts (id INTEGER PRIMARY KEY, size INTEGER)", "INSERT INTO parts VALUES (1, 'S')")
    refusing.run()
    command(refusing, "table.pause", tables=["parts"])
    refusing.sql("UPDATE items SET size = 1", "UPDATE parts SET size = 1")
    found = replay(refusing)
    assert found.state == "done"
    assert [line.split(":")[0] for line in found.lines] == [
        "main.items will be copied again by the next run that finds it at the source, with 1 rows put aside",
        "main.parts is left out, with 1 rows put aside",
    ]
    assert "RPL-1293" in found.lines[1]
    assert replay(refusing, "parts").code == "RPL-1293"
    refusing.run()
    assert aside(refusing) == {"parts": 1}
    assert replay(refusing).code == "RPL-1293"
    command(refusing, "table.resume", tables=["parts"])
    for number in range(3):
        refusing.run()
        refusing.assert_equal("items", "parts")
        assert aside(refusing) == {}
        refusing.sql(f"INSERT INTO parts (size) VALUES ({number})", f"ALTER TABLE parts ADD COLUMN n{number} TEXT")
