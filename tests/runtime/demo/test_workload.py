from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from replicator_runtime.demo.shop import make_shop
from replicator_runtime.demo.workload import Workload


def counts(shop: Path) -> dict[str, int]:
    with closing(sqlite3.connect(shop)) as connection:
        names = [n for (n,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {n: connection.execute(f'SELECT count(*) FROM "{n}"').fetchone()[0] for n in names}


def test_the_shop_has_twenty_thousand_rows_or_more_and_a_table_without_a_key(tmp_path: Path) -> None:
    rows = make_shop(tmp_path / "shop.db")
    found = counts(tmp_path / "shop.db")
    assert sum(found.values()) == rows >= 20_000
    assert len(found) == 5
    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop:
        views = shop.execute('SELECT count(*), count(DISTINCT at || path || status) FROM "page views"').fetchone()
    assert views[0] > views[1], "there must be equal rows"


def test_the_shop_is_the_same_every_time(tmp_path: Path) -> None:
    dumps = []
    for name in ("a.db", "b.db"):
        make_shop(tmp_path / name)
        with closing(sqlite3.connect(tmp_path / name)) as shop:
            dumps.append(list(shop.iterdump()))
    assert dumps[0] == dumps[1]


def test_workload_inserts_updates_deletes_moves_keys_and_adds_a_column(tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    make_shop(file)
    kinds: set[tuple[str, str]] = set()
    with closing(sqlite3.connect(file)) as shop:
        shop.executescript(
            "CREATE TABLE seen (what TEXT, name TEXT);"
            "CREATE TRIGGER i AFTER INSERT ON orders BEGIN INSERT INTO seen VALUES ('insert', 'orders'); END;"
            "CREATE TRIGGER u AFTER UPDATE ON customers BEGIN INSERT INTO seen VALUES ('update', 'customers'); END;"
            "CREATE TRIGGER d AFTER DELETE ON orders BEGIN INSERT INTO seen VALUES ('delete', 'orders'); END;"
            "CREATE TRIGGER k AFTER UPDATE ON products WHEN new.sku <> old.sku BEGIN"
            " INSERT INTO seen VALUES ('move', 'products'); END;"
        )
    workload = Workload(file, 1.0, pause_seconds=0.001)
    workload.start()
    while workload.open:
        time.sleep(0.05)
    workload.close()
    with closing(sqlite3.connect(file)) as shop:
        kinds = set(shop.execute("SELECT DISTINCT what, name FROM seen"))
        columns = [row[1] for row in shop.execute("PRAGMA table_info(customers)")]
    assert kinds == {("insert", "orders"), ("update", "customers"), ("delete", "orders"), ("move", "products")}
    assert columns[-1] == "points"
    assert workload.changes > workload.transactions > 50


def test_workload_that_fails_says_so_when_it_is_closed(tmp_path: Path) -> None:
    workload = Workload(tmp_path / "empty.db", 1.0)
    workload.start()
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        workload.close()


def test_workload_closed_early_has_added_its_column(tmp_path: Path) -> None:
    make_shop(tmp_path / "shop.db")
    workload = Workload(tmp_path / "shop.db", 60.0)
    workload.start()
    workload.close()
    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop:
        assert shop.execute("SELECT count(*) FROM customers WHERE points = 25").fetchone() == (40,)
