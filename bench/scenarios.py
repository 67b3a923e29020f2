"""The comparisons: each takes turns between us and the peers, on the same data, in the same run."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from bench.measure import Book, Measured, marginal
from bench.orders import Orders
from bench.ours import Ours
from bench.peers import connect, debezium, dlt_connectorx, kafka, recvlogical
from bench.process import Cost, run

CONNECT_PEERS: tuple[type[connect.ConnectPeer], ...] = (connect.JdbcSink, connect.IcebergSink)
SNAPSHOT, BACKLOG, DECODE = "snapshot", "backlog", "decode"


@dataclass(frozen=True, slots=True)
class Plan:
    """How much to measure.

    Attributes:
        rounds: How often; medians are over them.
        rows: Rows of the table that is changed.
        changes: Changes of the large backlog; the small one has a tenth.
        folder: Where everything lands; emptied as it goes.
    """

    rounds: int
    rows: int
    changes: int
    folder: Path


def snapshot(orders: Orders, plan: Plan, book: Book) -> None:
    """Copy a table into Delta, large less small; the large one is four times the plan's, or starting up drowns it."""
    sizes = {"orders_small": plan.rows // 10, "orders": 4 * plan.rows}
    for table, rows in sizes.items():
        orders.make(table, rows)
    sides: dict[str, Callable[[str, Path], Cost]] = {
        "ours": lambda table, folder: Ours(orders, folder, [table]).until_current(),
        "dlt + connectorx": lambda table, folder: dlt_connectorx.snapshot(orders, table, folder),
    }
    for number in range(plan.rounds):
        for side, copy in sides.items():
            costs = {}
            for table, rows in sizes.items():
                with scratch(plan.folder / f"snapshot_{table}_{number}") as folder:
                    costs[table] = (rows, copy(table, folder))
                orders.drop_slots()
            book.add(marginal(SNAPSHOT, side, number, costs["orders_small"], costs["orders"]))


def backlog(orders: Orders, plan: Plan, book: Book) -> None:
    """Apply a backlog of changes, a third each inserts, updates and deletes, large less small.

    Every side has its slot since before the first change, so that all read the same log.
    """
    orders.make("orders", plan.rows)
    recvlogical.prepare(orders)
    with scratch(plan.folder / "backlog") as folder:
        ours = Ours(orders, folder, ["orders"])
        ours.until_current()
        for number in range(plan.rounds):
            costs: dict[str, list[tuple[int, Cost]]] = {"ours": [], "pg_recvlogical": []}
            for share in (10, 1):
                done = orders.churn("orders", plan.changes // share, seed=(number + 1 / share) / 100)
                costs["ours"].append((done, ours.until_current()))
                costs["pg_recvlogical"].append((done, recvlogical.drain(orders, plan.folder)))
            for side, (small, large) in costs.items():
                book.add(marginal(BACKLOG, side, number, small, large))
    orders.drop_slots()


def decode(orders: Orders, plan: Plan, book: Book) -> None:
    """Read a backlog and drop it: us into Arrow, Debezium's engine into records; large less small."""
    orders.make("orders", plan.rows)
    debezium.prepare(orders)
    orders.slot("bench_decode")
    with scratch(plan.folder / "decode") as folder:
        ours = Ours(orders, folder, ["orders"])
        for number in range(plan.rounds):
            costs: dict[str, list[tuple[int, Cost]]] = {"ours": [], "Debezium engine": []}
            for share in (10, 1):
                done = orders.churn("orders", plan.changes // share, seed=-(number + 1 / share) / 100)
                costs["ours"].append((done, decode_ours(ours, done, folder)))
                costs["Debezium engine"].append((done, debezium.drain(orders, "orders", done, plan.folder)))
            for side, (small, large) in costs.items():
                book.add(marginal(DECODE, side, number, small, large))
    orders.drop_slots()


def decode_ours(ours: Ours, changes: int, folder: Path) -> Cost:
    """Our source alone; the seconds are those its process says, from the reader's start to the last change."""
    settings = {**ours.source, "slot": "bench_decode"}
    log = folder / "decode.log"
    cost = run([sys.executable, "-m", "bench.decode", json.dumps(settings), "orders", str(changes)], log)
    found, seconds = log.read_text().split()[-2:]
    if int(found) != changes:
        raise AssertionError(f"our source saw {found} of {changes} changes")
    return replace(cost, seconds=float(seconds))


def through_kafka(orders: Orders, plan: Plan, book: Book) -> None:
    """The same snapshot and backlog through Debezium, Kafka and a sink; one round, they take minutes.

    Fewer rows and changes than for the others: at their rates starting up is small beside them.
    """
    with scratch(plan.folder / "connect") as folder, kafka.broker(folder / "kafka") as broker:
        for kind in CONNECT_PEERS:
            orders.make("orders_small", plan.rows // 10)
            small = kind(orders, broker, "orders_small").drain(plan.rows // 10)
            orders.make("orders", rows := plan.rows)
            peer = kind(orders, broker, "orders")
            large = peer.drain(rows)
            book.add(marginal(SNAPSHOT, f"Debezium-{kind.name}", 0, (plan.rows // 10, small), (rows, large)))
            drained = []
            for share in (10, 1):
                done = orders.churn("orders", plan.changes // 4 // share, seed=0.9 / share)
                rows += done
                drained.append((done, peer.drain(rows)))
            book.add(marginal(BACKLOG, f"Debezium-{kind.name}", 0, drained[0], drained[1]))
            orders.drop_slots()


def memory(orders: Orders, plan: Plan, book: Book) -> None:
    """Memory of our Python process over one transaction of three million rows, and over backlogs of 1 × and 10 ×."""
    orders.make("orders", plan.rows // 10)
    with scratch(plan.folder / "memory") as folder:
        ours = Ours(orders, folder, ["orders"])
        ours.until_current()
        for name, rows, transaction in (
            ("backlog", plan.rows // 10, 999),
            ("backlog × 10", plan.rows, 999),
            ("one transaction", 3 * plan.rows, 3 * plan.rows),
        ):
            orders.insert("orders", rows, transaction)
            cost = ours.until_current()
            book.add([Measured("memory", "ours", f"MB of Python, {name}", cost.peak_root / 1e6, 0, cost)])
    orders.drop_slots()


def table_size(orders: Orders, plan: Plan, book: Book) -> None:
    """Seconds to apply 50,000 clustered changes to a table, and to one of ten times its rows, less an idle run."""
    for rows in (plan.rows, 10 * plan.rows):
        orders.make("orders", rows)
        with scratch(plan.folder / "size") as folder:
            ours = Ours(orders, folder, ["orders"])
            ours.until_current()
            for number in range(plan.rounds):
                idle = ours.until_current()
                orders.churn("orders", 50_000, spread=200_000, seed=number / 10)
                cost = ours.until_current()
                what = f"s, 50,000 clustered changes into {rows:,} rows"
                book.add([Measured("table size", "ours", what, cost.seconds - idle.seconds, number, cost)])
        orders.drop_slots()


@contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """A folder that is gone afterwards."""
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
