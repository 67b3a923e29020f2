"""From the commit at the source to a row readable at the target, at 100 changes a second into three tables.

Every change writes its own commit's wall clock time beside its number. An independent reader looks at each new version of
each Delta table: a change is readable from the moment the first version that has it could be opened.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
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
LAST = 15  # seconds that the last changes have to arrive
TABLES = ("latency_a", "latency_b", "latency_c")
_ROWS = 10_000


@dataclass
class Trickle:
    """Updates of one row each, in turn in the tables, each with the next number as `quantity`, beginning after `above`."""

    orders: Orders
    tables: Sequence[str] = TABLES
    above: int = 0
    sent: dict[int, float] = field(default_factory=dict)

    def run(self, seconds: float) -> None:
        """Send for `seconds`."""
        with psycopg.connect(self.orders.server.dsn(DATABASE), autocommit=True) as connection:
            started = time.monotonic()
            for sent in range(int(RATE * seconds)):
                table, number = self.tables[sent % len(self.tables)], self.above + sent + 1
                connection.execute(f"UPDATE {table} SET quantity = {number} WHERE id = {sent % _ROWS + 1}".encode())
                self.sent[number] = time.time()
                time.sleep(max(0.0, started + (sent + 1) / RATE - time.monotonic()))


class Watch:
    """Notes which numbers above `above` each new version of a table brings, and when it could be read."""

    def __init__(self, path: Path, above: int = 0) -> None:
        self._path, self._above = path, above
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
        query = f"SELECT quantity FROM copy WHERE quantity > {self._above}"
        batches = QueryBuilder().register("copy", table).execute(query)
        return [value for batch in batches for value in batch.column(0).to_pylist()]


def latency(orders: Orders, plan: Plan, book: Book) -> None:
    """Measure it once the replicator streams."""
    make_tables(orders, TABLES)
    with scratch(plan.folder / "latency") as folder:
        ours = Ours(orders, folder, list(TABLES))
        ours.until_current()
        process = ours.start()
        try:
            wait_for(ours, "streaming")
            waits = readable_after(orders, ours, TABLES)
        finally:
            end(process, 60)
    orders.forget()
    for share in (50, 90, 99):
        book.add([Measured("latency", "ours", f"s, p{share}", percentile(waits, share), 0)])


def make_tables(orders: Orders, tables: Sequence[str]) -> None:
    """Make tables whose `quantity` is 0."""
    for table in tables:
        orders.make(table, _ROWS)
        orders.execute(f"UPDATE {table} SET quantity = 0")


def readable_after(orders: Orders, ours: Ours, tables: Sequence[str], above: int = 0) -> list[float]:
    """Change `tables` for a minute; after how many seconds each change could be read, in ascending order.

    Args:
        orders: The source.
        ours: A replicator that streams.
        tables: Made by `make_tables`.
        above: The largest number that they have from a call before.

    Raises:
        AssertionError: When a change could never be read.
    """
    watches = [Watch(ours.table(table), above) for table in tables]
    for watch in watches:
        watch.start()
    trickle = Trickle(orders, tables, above)
    trickle.run(SECONDS)
    time.sleep(LAST)
    for watch in watches:
        watch.stop()
    seen = {number: at for watch in watches for number, at in watch.seen.items()}
    if missing := len(trickle.sent.keys() - seen.keys()):
        raise AssertionError(f"{missing} of {len(trickle.sent)} changes were never readable")
    return sorted(seen[number] - at for number, at in trickle.sent.items())


def percentile(waits: Sequence[float], share: int) -> float:
    """The value that `share` percent of sorted `waits` do not exceed."""
    return waits[min(len(waits) - 1, len(waits) * share // 100)]


def wait_for(ours: Ours, text: str) -> None:
    """Wait until the log says `text` once more.

    Raises:
        TimeoutError: After three minutes.
    """
    known = ours.log.read_text().count(text)
    deadline = time.monotonic() + 180
    while ours.log.read_text().count(text) <= known:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the replicator never said {text!r}")
        time.sleep(0.2)
