"""What an operator does in a day, beside a run and without one, at each kind of database: after every command source and copy are equal."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.end_to_end.commands.two_tables import Shop, put_back, two_tables
from tests.end_to_end.replicator import Ended

KINDS = ("sqlite", "postgres", "mysql")


@pytest.fixture(params=KINDS)
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Shop:
    made = two_tables(request, request.param, tmp_path)
    made.begin()
    return made


def command(shop: Shop, *words: str, status: int = 0) -> Ended:
    """A command with the pipeline's file after its name."""
    name = 2 if words[0] in {"table", "offsets"} else 1
    ended = shop.replicator.start_command(*words[:name], str(shop.replicator.pipeline), *words[name:]).wait()
    assert ended.status == status, ended.messages
    return ended


def shown(shop: Shop, table: str) -> Mapping[str, Any]:
    """What `status` says of a table."""
    tables = command(shop, "status").envelope["data"]["tables"]
    found: Mapping[str, Any] = next(one for one in tables if one["table"].endswith(table))
    return found


def until(condition: Callable[[], object], what: str) -> None:
    """Wait for a run that goes on."""
    deadline = time.monotonic() + 180
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.3)


def change(shop: Shop, number: int, *, structure: bool = False) -> None:
    """Insert, update and delete rows of both tables, and give both another column."""
    for table in ("item", "note"):
        shop.execute(
            f"INSERT INTO {table} (id, name) VALUES ({1000 + number}, 'change {number}')",
            f"UPDATE {table} SET name = 'change {number}' WHERE id IN ({number}, {number + 1})",
            f"DELETE FROM {table} WHERE id = {20 + number}",
        )
        if structure:
            shop.execute(f"ALTER TABLE {table} ADD extra_{number} int")


@pytest.mark.timeout(600)
def test_beside_a_run(shop: Shop) -> None:
    running = shop.replicator.start()
    shop.wait_until_equal()

    command(shop, "pause")
    until(lambda: command(shop, "status").envelope["data"]["phase"] == "paused", "pause")
    change(shop, 1)
    time.sleep(1)
    assert shop.differs("item", "note") == ["item", "note"], "a paused replicator reads nothing"
    command(shop, "resume")
    shop.wait_until_equal()

    command(shop, "table", "pause", "item")
    change(shop, 2, structure=True)
    until(lambda: shop.differs("note") == [], "the other table goes on")
    assert shop.differs("item") == ["item"]
    until(lambda: shown(shop, "item")["pause"], "the status says so")
    command(shop, "table", "resume", "item")
    shop.wait_until_equal()

    table = shop.replicator.lake / shop.folder / "item"
    away = table.rename(shop.replicator.folder / "away")
    change(shop, 3)
    until(lambda: shown(shop, "item")["state"] == "FAILING", "a table that was deleted fails")
    until(lambda: shop.differs("note") == [], "the other table goes on")
    put_back(away, table)  # Delta may have written a checksum file late
    command(shop, "table", "retry", "item")
    shop.wait_until_equal()

    explained = command(shop, "explain-row", "note", "id=5").envelope["data"]
    assert explained["verdict"] == "both sides have the row, with equal values"
    assert command(shop, "verify").envelope["data"]["equal"]
    assert running.stop().status == 143


@pytest.mark.timeout(600)
def test_without_a_run(shop: Shop) -> None:
    shop.replicator.until_current()
    command(shop, "pause")
    change(shop, 1)
    assert shop.replicator.run("--until-current").error["code"] == "RPL-1247"
    command(shop, "resume")
    equal_after_a_run(shop)

    command(shop, "table", "pause", "item")
    change(shop, 2, structure=True)
    shop.replicator.until_current()
    assert shop.differs("item", "note") == ["item"]
    command(shop, "table", "resume", "item")
    change(shop, 3)
    equal_after_a_run(shop)

    command(shop, "reset", "--yes")
    change(shop, 4, structure=True)
    equal_after_a_run(shop)

    both = shop.replicator.settings.get("tables", [{"table": "item"}])
    item = [one for one in both if one["table"] == "item"]
    shop.replicator.settings = {**shop.replicator.settings, "tables": item}
    change(shop, 5)
    assert shop.replicator.run("--until-current").error["code"] == "RPL-1260"
    planned = command(shop, "plan", status=6).envelope["data"]
    command(shop, "approve", planned["plan"])
    shop.replicator.until_current()
    command(shop, "table", "drop", "note", "--yes")
    assert not DeltaTable.is_deltatable(str(shop.replicator.lake / shop.folder / "note"))
    for number in (6, 7, 8):
        change(shop, number, structure=True)
        shop.replicator.until_current()
        assert shop.differs("item") == []

    base = str(shop.replicator.state)
    listed = shop.replicator.start_command("list", "--base", base).wait().envelope["data"]
    assert [one["name"] for one in listed] == ["shop"]
    command(shop, "delete", "--target-tables", "--yes")
    assert not list(shop.replicator.lake.rglob("*.parquet"))
    listed = shop.replicator.start_command("list", "--base", base).wait().envelope["data"]
    assert listed == []


def equal_after_a_run(shop: Shop) -> None:
    shop.replicator.until_current()
    assert shop.differs("item", "note") == []
