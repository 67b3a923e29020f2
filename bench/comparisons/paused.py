"""Ten tables beside a paused one that has as many changes in its lane as the plan says: what their readers wait."""

from __future__ import annotations

import time

from bench.comparisons.latency import RATE, SECONDS, make_tables, percentile, readable_after, wait_for
from bench.comparisons.turns import Plan, scratch
from bench.data.postgres_orders import Orders
from bench.measure import Book, Measured
from bench.ours import Ours
from bench.process import end

PAUSED = "paused"
BEFORE, BESIDE, DRAINED = "s, p99 before", "s, p99 beside the lane", "s, p99 while it is drained"
TABLES = tuple(f"beside_{number}" for number in range(10))
_BUSY = "busy"


def paused(orders: Orders, plan: Plan, book: Book) -> None:
    """Measure the ten before the pause, then with the lane filled, then from the resume on; the copy ends equal."""
    make_tables(orders, TABLES)
    orders.make(_BUSY, plan.rows)
    with scratch(plan.folder / PAUSED) as folder:
        ours = Ours(orders, folder, [_BUSY, *TABLES])
        ours.until_current()
        process = ours.start()
        try:
            wait_for(ours, "streaming")
            _measure(orders, ours, 0, BEFORE, book)
            ours.command("table", "pause", ours.pipeline, f"{orders.parent}.{_BUSY}")
            changes = orders.churn(_BUSY, plan.changes)
            _wait_until_read(orders, ours)
            _measure(orders, ours, 1, BESIDE, book)
            book.add([Measured(PAUSED, "ours", "changes in the lane", changes, 0)])
            resumed = time.monotonic()
            ours.command("table", "resume", ours.pipeline, f"{orders.parent}.{_BUSY}", "--no-wait")
            _measure(orders, ours, 2, DRAINED, book)
            _wait_until_equal(orders, ours)
            book.add([Measured(PAUSED, "ours", "s, at most, from the resume to equal", time.monotonic() - resumed, 0)])
        finally:
            end(process, 60)
    orders.forget()


def _measure(orders: Orders, ours: Ours, turn: int, what: str, book: Book) -> None:
    waits = readable_after(orders, ours, TABLES, above=turn * RATE * SECONDS)
    book.add([Measured(PAUSED, "ours", what, percentile(waits, 99), 0)])


def _wait_until_read(orders: Orders, ours: Ours) -> None:
    """Wait until the stream has passed all that was committed: a change made now could be read."""
    orders.execute(f"UPDATE {TABLES[0]} SET quantity = -1 WHERE id = 1")
    _wait_until_equal(orders, ours, TABLES[0])


def _wait_until_equal(orders: Orders, ours: Ours, table: str = _BUSY) -> None:
    deadline = time.monotonic() + 600
    while (found := ours.fingerprint(table)) != (wanted := orders.fingerprint(table)):
        if time.monotonic() > deadline:
            raise AssertionError(f"{table}: the copy has {found}, the source {wanted}")
        time.sleep(1)
