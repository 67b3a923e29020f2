"""From the commit at the source to a row readable at the target, at 100 changes a second into three tables.

Every change writes its own commit's wall clock time beside its number. An independent reader looks at each new version of
each Delta table: a change is readable from the moment the first version that has it could be opened.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from deltalake import DeltaTable, QueryBuilder

from bench.comparisons.turns import Plan, scratch
from bench.data.postgres_orders import Orders
from bench.data.source import DATABASE
from bench.measure import Book, Measured
from bench.ours import Ours
from bench.process import end

RATE = 100
SECONDS = 60
TABLES = ("latency_a", "latency_b", "latency_c")


@dataclass
class Trickle:
    """Single-row transactions in turn into the tables, every tenth an update of a row made before."""

    orders: Orders
    sent: dict[int, float] = field(default_factory=dict)

    def run(self, seconds: float) -> None:
        """Send for `seconds`."""
        with psycopg.connect(self.orders.server.dsn(DATABASE), autocommit=True) as connection:
            started = time.monotonic()
            for number in range(int(RATE * seconds)):
                table = TABLES[number % len(TABLES)]
                connection.execute(
                    f"UPDATE {table} SET quantity = {number + 1} WHERE id = {number % 10_000 + 1}".encode()
                )
                self.sent[number + 1] = time.time()
                time.sleep(max(0.0, started + (number + 1) / RATE - time.monotonic()))


class Watch:
    """Notes which numbers each new version of a table brings, and when it could be read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.seen: dict[int, float] = {}

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._stop.set()
        self._thread.join(30)

    def _run(self) -> None:
        version = -1
        table = DeltaTable(str(self._path))
        while not self._stop.wait(0.05):
            table.update_incremental()
            if table.version() == version:
                continue
            version = table.version()
            for number in self._numbers(table):
                self.seen.setdefault(number, time.time())

    def _numbers(self, table: DeltaTable) -> list[int]:
        query = "SELECT quantity FROM copy WHERE quantity > 0"
        batches = QueryBuilder().register("copy", table).execute(query)
        return [value for batch in batches for value in batch.column(0).to_pylist()]


def latency(orders: Orders, plan: Plan, book: Book) -> None:
    """Measure it once the replicator streams."""
    for table in TABLES:
        orders.make(table, 10_000)
        orders.execute(f"UPDATE {table} SET quantity = 0")
    with scratch(plan.folder / "latency") as folder:
        ours = Ours(orders, folder, list(TABLES))
        ours.until_current()
        process = ours.start()
        try:
            _wait_for(ours, "streaming")
            watches = [Watch(ours.table(table)) for table in TABLES]
            for watch in watches:
                watch.start()
            trickle = Trickle(orders)
            trickle.run(SECONDS)
            time.sleep(15)
            for watch in watches:
                watch.stop()
        finally:
            end(process, 60)
    orders.forget()
    _note(trickle.sent, {n: t for watch in watches for n, t in watch.seen.items()}, book)


def _wait_for(ours: Ours, text: str) -> None:
    known = ours.log.read_text().count(text)
    deadline = time.monotonic() + 180
    while ours.log.read_text().count(text) <= known:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the replicator never said {text!r}")
        time.sleep(0.2)


def _note(sent: dict[int, float], seen: dict[int, float], book: Book) -> None:
    missing = len(sent.keys() - seen.keys())
    waits = sorted(seen[number] - sent[number] for number in sent if number in seen)
    if missing or not waits:
        raise AssertionError(f"{missing} of {len(sent)} changes were never readable")
    for share in (50, 90, 99):
        wait = waits[min(len(waits) - 1, len(waits) * share // 100)]
        book.add([Measured("latency", "ours", f"s, p{share}", wait, 0)])
