"""The shop at work: what happens to it while it is replicated."""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path

from replicator_runtime.demo.shop import CUSTOMERS, ORDERS, PRODUCTS, open_shop, sku

_NOW = "strftime('%Y-%m-%d %H:%M:%f', 'now')"


class Workload:
    """Works on the shop in a thread of its own for some seconds: inserts, updates, deletes, moved keys, a new column.

    Attributes:
        transactions: How many transactions it committed.
        changes: How many rows it changed.
        ended_at: `time.monotonic()` after the last commit.
        seconds: How long it works.
    """

    def __init__(
        self,
        shop: Path,
        seconds: float,
        *,
        seed: int = 2,
        pause_seconds: float = 0.02,
        first_order: int = ORDERS + 1,
        grows: bool = True,
    ) -> None:
        self.transactions = 0
        self.changes = 0
        self.ended_at = 0.0
        self._shop = shop
        self.seconds = seconds
        self._pause = pause_seconds
        self._first_order = first_order
        self._grows = grows
        self._chance = random.Random(seed)  # noqa: S311 - made-up data
        self._closed = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="shop", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    @property
    def open(self) -> bool:
        """Whether it is still at work."""
        return self._thread.is_alive()

    def close(self) -> None:
        """End early, or wait for the end.

        Raises:
            sqlite3.Error: What went wrong in its thread.
        """
        self._closed.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            with open_shop(self._shop) as shop:
                self._work(shop)
        except BaseException as error:  # noqa: BLE001 - handed to the thread that closes
            self._error = error
        self.ended_at = time.monotonic()

    def _work(self, shop: sqlite3.Connection) -> None:
        half, end = time.monotonic() + self.seconds / 2, time.monotonic() + self.seconds
        grown = not self._grows
        while time.monotonic() < end or not grown:
            if not grown and (time.monotonic() >= half or self._closed.is_set()):
                grown = True
                self._commit(shop, _add_column)
            elif self._closed.is_set():
                return
            else:
                self._commit(shop, self._chance.choice(_EVERYDAY))
            time.sleep(self._pause)

    def _commit(self, shop: sqlite3.Connection, step: Step) -> None:
        till = Till(shop, self._chance, self._first_order + self.transactions)
        shop.execute("BEGIN IMMEDIATE")
        step(till)
        shop.execute("COMMIT")
        self.changes += till.changes
        self.transactions += 1


class Till:
    """One transaction: runs statements and counts the rows they change."""

    def __init__(self, shop: sqlite3.Connection, chance: random.Random, next_order: int) -> None:
        self.changes = 0
        self.next_order = next_order
        self.chance = chance
        self._shop = shop

    def run(self, statement: str, *values: object) -> sqlite3.Cursor:
        """Run one statement."""
        cursor = self._shop.execute(statement, values)
        self.changes += max(0, cursor.rowcount)
        return cursor

    def any_order(self) -> int:
        """An order that was there at the beginning."""
        return self.chance.randint(1, ORDERS)

    def any_sku(self) -> str:
        """A product that was there at the beginning."""
        return sku(self.chance.randrange(PRODUCTS))


Step = Callable[[Till], None]


def _take_order(till: Till) -> None:
    customer = till.chance.randint(1, CUSTOMERS)
    till.run(f"INSERT INTO orders VALUES (?, ?, {_NOW}, 'new', NULL)", till.next_order, customer)  # noqa: S608
    for line in range(1, till.chance.randint(2, 4)):
        price = round(till.chance.uniform(1, 900), 2)
        till.run("INSERT INTO order_items VALUES (?,?,?,?,?)", till.next_order, line, till.any_sku(), 1, price)


def _serve(till: Till) -> None:
    """Several customers change, one of them twice in one transaction."""
    numbers = [till.chance.randint(1, CUSTOMERS) for _ in range(5)]
    for number in numbers:
        till.run("UPDATE customers SET credit = round(credit + 1.25, 2), vip = NOT vip WHERE id = ?", number)
    till.run("UPDATE customers SET email = NULL WHERE id = ?", numbers[0])


def _pay(till: Till) -> None:
    first = till.any_order()
    till.run("UPDATE orders SET status = 'paid' WHERE id BETWEEN ? AND ?", first, first + 9)


def _clean(till: Till) -> None:
    """Deletes, one of them undone in the same transaction."""
    number = till.any_order()
    row = till.run("SELECT * FROM orders WHERE id = ?", number).fetchone()
    till.run("DELETE FROM orders WHERE id = ?", number)
    if row is not None and till.chance.random() < 0.5:
        till.run("INSERT INTO orders VALUES (?,?,?,?,?)", *row)
    till.run('DELETE FROM order_items WHERE "order" = ?', till.any_order())


def _move_keys(till: Till) -> None:
    """A product gets another key, and two products swap theirs."""
    till.run("UPDATE OR IGNORE products SET sku = sku || '-B' WHERE sku = ?", till.any_sku())
    one, two = till.any_sku(), till.any_sku()
    if one != two:
        for old, new in ((one, "moving"), (two, one), ("moving", two)):
            till.run("UPDATE products SET sku = ? WHERE sku = ?", new, old)


def _look(till: Till) -> None:
    """Insert equal rows into a table without a key, and delete one of several equal ones."""
    at = f"2024-01-01 09:{till.chance.randrange(60):02d}:00"
    for _ in range(2):
        till.run('INSERT INTO "page views" VALUES (?, ?, ?)', at, "/", 200)
    till.run('DELETE FROM "page views" WHERE rowid = (SELECT rowid FROM "page views" WHERE path = ? LIMIT 1)', "/cart")


def _add_column(till: Till) -> None:
    till.run("ALTER TABLE customers ADD COLUMN points INTEGER NOT NULL DEFAULT 10")
    till.run("UPDATE customers SET points = 25 WHERE id % 100 = 0")


_EVERYDAY: tuple[Step, ...] = (_take_order, _take_order, _take_order, _serve, _pay, _clean, _move_keys, _look)
