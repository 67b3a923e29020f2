"""The comparisons on Postgres, and what is measured of us alone."""

from __future__ import annotations

from functools import partial
from typing import Any

from bench.comparisons.turns import Copy, Drain, Plan, copies, drains, piped, scratch
from bench.data.postgres_orders import Orders
from bench.measure import Book, Measured
from bench.ours import Ours, decoding
from bench.peers import debezium, dlt_connectorx, kafka, recvlogical
from bench.peers.connect import IcebergSink, JdbcSink
from tests.runtime.notices.webhook import Webhook, serving
from tests.services.processes import LOOPBACK

SNAPSHOT, BACKLOG, DECODE, OBSERVED = "snapshot", "backlog", "decode", "observed"
WITHOUT = "ours, unobserved"


def snapshot(orders: Orders, plan: Plan, book: Book) -> None:
    """Copy a table into Delta."""
    sides: dict[str, Copy] = {
        "ours": lambda table, folder: Ours(orders, folder, [table]).until_current(),
        "dlt + connectorx": partial(dlt_connectorx.snapshot, orders),
    }
    copies(SNAPSHOT, orders, plan, book, sides)


def backlog(orders: Orders, plan: Plan, book: Book) -> None:
    """Apply a backlog of changes, a third each inserts, updates and deletes.

    Every side has its slot since before the first change, so that all read the same log.
    """
    orders.make("orders", plan.rows)
    recvlogical.prepare(orders)
    with scratch(plan.folder / "backlog") as folder:
        ours = Ours(orders, folder, ["orders"])
        ours.until_current()
        sides = {
            "ours": lambda _: ours.until_current(),
            "pg_recvlogical": lambda _: recvlogical.drain(orders, plan.folder),
        }
        drains(BACKLOG, orders, plan, book, sides)
    orders.forget()


def observed(orders: Orders, plan: Plan, book: Book) -> None:
    """A backlog with metrics, a freshness objective, lineage and notifications, and the same without; in turn, on the same log."""
    orders.make("orders", plan.rows)
    with scratch(plan.folder / OBSERVED) as folder, serving(Webhook()) as webhook:
        settings: dict[str, Any] = {
            "metrics": {"address": f"{LOOPBACK}:0"},
            "slo": {"percent": 99, "minutes": 5},
            "lineage": {"transport": {"type": "file", "log_file_path": str(folder / "lineage"), "append": True}},
            "notifications": [{"url": webhook.url()}],
        }
        replicators = {
            "ours": Ours(orders, folder / "observed", ["orders"], **settings),
            WITHOUT: Ours(orders, folder / "plain", ["orders"]),
        }
        for replicator in replicators.values():
            replicator.until_current()
        drains(OBSERVED, orders, plan, book, {side: _drain(one) for side, one in replicators.items()})
    orders.forget()


def _drain(replicator: Ours) -> Drain:
    return lambda _: replicator.until_current()


def decode(orders: Orders, plan: Plan, book: Book) -> None:
    """Read a backlog and drop it: us into Arrow, Debezium's engine into records."""
    orders.make("orders", plan.rows)
    debezium.prepare(orders)
    with scratch(plan.folder / "decode") as folder:
        sides = {
            "ours": decoding(orders, "orders", folder),
            "Debezium engine": lambda changes: debezium.drain(orders, "orders", changes, plan.folder),
        }
        drains(DECODE, orders, plan, book, sides)
    orders.forget()


def through_kafka(orders: Orders, plan: Plan, book: Book) -> None:
    """The same snapshot and backlog through Debezium, Kafka and a sink."""
    with scratch(plan.folder / "connect") as folder, kafka.broker(folder / "kafka") as broker:
        for peer_of in (
            lambda table: JdbcSink(orders, broker, table, orders.server),
            lambda table: IcebergSink(orders, broker, table),
        ):
            piped((SNAPSHOT, BACKLOG), orders, plan, book, peer_of)


def memory(orders: Orders, plan: Plan, book: Book) -> None:
    """Memory of our Python process over one transaction of three million rows, and over backlogs of 1 × and 10 ×.

    The shorter backlog already fills a batch (500,000 changes), so that only what grows without end would show.
    """
    orders.make("orders", plan.rows // 10)
    with scratch(plan.folder / "memory") as folder:
        ours = Ours(orders, folder, ["orders"])
        ours.until_current()
        for name, rows, transaction in (
            ("backlog", plan.rows // 2, 999),
            ("backlog × 10", 5 * plan.rows, 999),
            ("one transaction", 3 * plan.rows, 3 * plan.rows),
        ):
            orders.insert("orders", rows, transaction)
            cost = ours.until_current()
            book.add([Measured("memory", "ours", f"MB of Python, {name}", cost.peak_root / 1e6, 0, cost)])
    orders.forget()


def table_size(orders: Orders, plan: Plan, book: Book) -> None:
    """Seconds to apply 50,000 clustered changes to a table, and to one of ten times its rows.

    Ten such batches in one run, less an idle run: a single one is less than the spread of starting up.
    """
    for rows in (plan.rows, 10 * plan.rows):
        orders.make("orders", rows)
        with scratch(plan.folder / "size") as folder:
            ours = Ours(orders, folder, ["orders"], batch={"maxRows": 50_000})
            ours.until_current()
            for number in range(plan.rounds):
                idle = ours.until_current()
                orders.churn("orders", 10 * 50_000, spread=400_000, seed=number / 10)
                cost = ours.until_current()
                what = f"s, 50,000 clustered changes into {rows:,} rows"
                book.add([Measured("table size", "ours", what, (cost.seconds - idle.seconds) / 10, number, cost)])
        orders.forget()
