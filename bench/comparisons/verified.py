"""`replicator verify` of a table beside the run that copied it: whole runs of both, from their start to their end."""

from __future__ import annotations

import time

from bench.comparisons.latency import wait_for
from bench.comparisons.turns import Plan, scratch
from bench.data.postgres_orders import Orders
from bench.measure import Book, Measured
from bench.ours import Ours
from bench.process import end

VERIFY = "verify"
COPIED, VERIFIED = "s, the copy", "s, the comparison"
_TABLE = "verified"


def verified(orders: Orders, plan: Plan, book: Book) -> None:
    """Copy a table of the plan's rows, then compare it while a run goes on that has nothing to do."""
    orders.make(_TABLE, plan.rows)
    for number in range(plan.rounds):
        with scratch(plan.folder / f"{VERIFY}_{number}") as folder:
            ours = Ours(orders, folder, [_TABLE])
            book.add([Measured(VERIFY, "ours", COPIED, ours.until_current().seconds, number)])
            process = ours.start()
            try:
                wait_for(ours, "streaming")
                began = time.monotonic()
                ours.command("verify", ours.pipeline, _TABLE)
                book.add([Measured(VERIFY, "ours", VERIFIED, time.monotonic() - began, number)])
            finally:
                end(process, 60)
        orders.forget()
