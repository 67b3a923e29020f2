"""`replicator verify --repair` of MySQL's tables whose damaged rows are written meanwhile, compared by clients that share no code with ours."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.end_to_end.comparison import delta_rows
from tests.end_to_end.verify.shop import Shop, compared, server_shop
from tests.services.mysql import client
from tests.services.mysql.server import MysqlDatabase

_DAMAGE = (
    "DELETE FROM {} WHERE id BETWEEN 100 AND 109",
    "UPDATE {} SET name = 'damaged' WHERE id BETWEEN 110 AND 119",
    "UPDATE {} SET price = NULL WHERE id BETWEEN 100 AND 199",
    "INSERT INTO {0} SELECT * FROM {0} WHERE id BETWEEN 130 AND 139",
    "UPDATE {} SET id = id + 90000 WHERE id BETWEEN 140 AND 144",
)
_COLUMNS = {"item": ["id", "name", "price"], "part": ["a", "b", "n"], "visit": ["who", "page"]}


@pytest.fixture
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Shop:
    return server_shop(request, "mysql", tmp_path)


@contextmanager
def damaged_rows_written(shop: Shop) -> Iterator[None]:
    """Change rows that are damaged, and others, until the end; the last change of some is before it, of others after."""
    stop, errors = threading.Event(), list[BaseException]()

    def write() -> None:
        chance, number = random.Random(11), 0
        while not stop.is_set():
            number += 1
            key = chance.randrange(100, 150)
            try:
                shop.execute(
                    f"UPDATE item SET name = 'now {number}' WHERE id = {key}",
                    f"DELETE FROM item WHERE id = {key + 1}",
                    f"UPDATE item SET id = {key + 1} WHERE id = {5000 + key}",
                    f"INSERT INTO item VALUES ({5000 + key}, 'moves {number}', {number}) ON DUPLICATE KEY UPDATE price = {number}",
                )
            except BaseException as error:
                errors.append(error)
                raise
            stop.wait(0.5)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        stop.set()
        writer.join()
    assert errors == []


def differing(shop: Shop, database: MysqlDatabase) -> list[str]:
    """The tables whose copies have other rows."""
    found = []
    for table, columns in _COLUMNS.items():
        source = client.rows(database, f"SELECT {', '.join(columns)} FROM {table}")
        if Counter(source) != Counter(delta_rows(shop.replicator.lake / shop.folder / table, columns)):
            found.append(table)
    return found


@pytest.mark.timeout(1800)
def test_damaged_rows_that_are_written_meanwhile_are_right_afterwards(
    shop: Shop, mysql_database: MysqlDatabase
) -> None:
    shop.begin()
    running = shop.replicator.start()
    shop.wait_until_replicating()
    shop.damage("item", *_DAMAGE)
    with shop.written(), damaged_rows_written(shop):
        ended = shop.verify("--repair", "--yes")
        assert ended.status == 0, ended.messages
        found = compared(ended)["item"]
        assert found["result"] == "repaired", ended.messages
        assert found["repaired"]["deleted"] >= 5, found
    deadline = time.monotonic() + 300
    while wrong := differing(shop, mysql_database):
        assert time.monotonic() < deadline, (wrong, running.log.read_text()[-3000:])
        time.sleep(2)
    again = shop.verify()
    assert again.status == 0, again.messages
    assert running.stop().status == 143
