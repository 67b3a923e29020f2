"""The shop: a small database with most of SQLite's types, a composite key, and a table without a key."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import date, datetime, timedelta
from pathlib import Path

CUSTOMERS = 4_000
PRODUCTS = 800
ORDERS = 9_000
VISITS = 6_000

TABLES = """
CREATE TABLE customers (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT, born DATE, vip BOOLEAN NOT NULL, credit DECIMAL(10,2),
  since TIMESTAMP NOT NULL
);
CREATE TABLE products (
  sku TEXT NOT NULL PRIMARY KEY, title TEXT NOT NULL, price DECIMAL(8,2) NOT NULL, weight REAL, photo BLOB, attributes JSON
);
CREATE TABLE orders (
  id INTEGER PRIMARY KEY, customer INTEGER NOT NULL, placed TIMESTAMP NOT NULL, status TEXT NOT NULL, note TEXT
);
CREATE TABLE order_items (
  "order" INTEGER NOT NULL, line INTEGER NOT NULL, sku TEXT NOT NULL, quantity INTEGER NOT NULL,
  price DECIMAL(8,2) NOT NULL, PRIMARY KEY ("order", line)
);
CREATE TABLE "page views" (at TIMESTAMP, path TEXT, status INTEGER);
"""
FIRST_NAMES = ("Ada", "Björk", "Chloé", "Đặng", "Ines", "Jürgen", "Łukasz", "Mei 美", "Noor نور", "Zoë 🦊")
LAST_NAMES = ("Ångström", "Curie", "Hopper", "Jemison", "Noether", "O'Brien", "Ramanujan", "Sørensen", "Turing", "Wu")
STATUSES = ("new", "paid", "sent", "returned")
PATHS = ("/", "/cart", "/search?q=lamp", "/checkout", "/très-bien")
_OPENED = datetime(2024, 1, 1, 9)  # noqa: DTZ001 - the shop writes its own wall clock


def make_shop(path: Path, seed: int = 1) -> int:
    """Create the database `path` and fill it, the same for the same seed; returns how many rows it holds."""
    chance = random.Random(seed)  # noqa: S311 - made-up data
    with closing(sqlite3.connect(path)) as shop:
        shop.execute("PRAGMA journal_mode=WAL")  # the writer and the replicator do not wait for each other
        shop.executescript(TABLES)
        with shop:
            shop.executemany("INSERT INTO customers VALUES (?,?,?,?,?,?,?)", _customers(chance))
            shop.executemany("INSERT INTO products VALUES (?,?,?,?,?,?)", _products(chance))
            shop.executemany("INSERT INTO orders VALUES (?,?,?,?,?)", _orders(chance))
            shop.executemany("INSERT INTO order_items VALUES (?,?,?,?,?)", _items(chance))
            shop.executemany('INSERT INTO "page views" VALUES (?,?,?)', _views(chance))
        return shop.total_changes


@contextmanager
def open_shop(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that begins transactions only explicitly, and waits for others' locks."""
    with closing(sqlite3.connect(path, timeout=60, isolation_level=None)) as shop:
        yield shop


def sku(number: int) -> str:
    """A product's key."""
    return f"SKU-{number:05d}"


def _customers(chance: random.Random) -> Iterator[tuple[object, ...]]:
    for number in range(1, CUSTOMERS + 1):
        name = f"{chance.choice(FIRST_NAMES)} {chance.choice(LAST_NAMES)}"
        email = f"customer{number}@example.org" if chance.random() < 0.9 else None
        born = date(1940, 1, 1) + timedelta(days=chance.randrange(25_000))
        yield (
            number,
            name,
            email,
            born.isoformat() if chance.random() < 0.8 else None,
            chance.random() < 0.1,
            round(chance.uniform(-500, 5000), 2),
            _moment(chance),
        )


def _products(chance: random.Random) -> Iterator[tuple[object, ...]]:
    for number in range(PRODUCTS):
        attributes = json.dumps({"colour": chance.choice(("red", "grün", "蓝")), "sizes": [chance.randrange(9)]})
        yield (
            sku(number),
            f"Lamp model {number}",
            round(chance.uniform(1, 900), 2),
            chance.uniform(0.01, 40) if chance.random() < 0.9 else None,
            chance.randbytes(64),
            attributes,
        )


def _orders(chance: random.Random) -> Iterator[tuple[object, ...]]:
    for number in range(1, ORDERS + 1):
        note = "please ring\ntwice" if chance.random() < 0.05 else None
        yield (number, chance.randint(1, CUSTOMERS), _moment(chance), chance.choice(STATUSES), note)


def _items(chance: random.Random) -> Iterator[tuple[object, ...]]:
    for order in range(1, ORDERS + 1):
        for line in range(1, chance.randint(1, 3) + 1):
            yield (order, line, sku(chance.randrange(PRODUCTS)), chance.randint(1, 5), round(chance.uniform(1, 900), 2))


def _views(chance: random.Random) -> Iterator[tuple[object, ...]]:
    """Few distinct values, so that equal rows are common."""
    for _ in range(VISITS):
        at = _OPENED + timedelta(minutes=chance.randrange(600))
        yield (at.isoformat(" "), chance.choice(PATHS), chance.choice((200, 200, 404, None)))


def _moment(chance: random.Random) -> str:
    return (_OPENED + timedelta(seconds=chance.randrange(60_000_000), microseconds=chance.randrange(10**6))).isoformat(
        " "
    )
