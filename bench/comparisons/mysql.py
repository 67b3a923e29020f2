"""The comparisons on MySQL, or on MariaDB when the plan says so."""

from __future__ import annotations

from functools import partial

from bench.comparisons.turns import Copy, Plan, copies, drains, piped, scratch
from bench.data.mysql_orders import MysqlOrders
from bench.data.postgres_orders import orders_server
from bench.measure import Book
from bench.ours import Ours, decoding
from bench.peers import kafka, mysql_clients
from bench.peers.connect import JdbcSink


def snapshot(orders: MysqlOrders, plan: Plan, book: Book) -> None:
    """Copy a table into Delta; connectorx only reads it."""
    sides: dict[str, Copy] = {
        "ours": lambda table, folder: Ours(orders, folder, [table]).until_current(),
        "DB-API cursor": partial(mysql_clients.cursor, orders),
        "connectorx alone": partial(mysql_clients.connectorx, orders),
    }
    copies(f"{plan.server}-snapshot", orders, plan, book, sides)


def backlog(orders: MysqlOrders, plan: Plan, book: Book) -> None:
    """Apply a backlog of changes, a third each inserts, updates and deletes; then the same through Debezium and Kafka.

    Debezium's sink writes into Postgres, as in the other half: only the source differs.
    """
    orders.make("orders", plan.rows)
    with scratch(plan.folder / "backlog") as folder:
        ours = Ours(orders, folder, ["orders"])
        ours.until_current()
        drains(f"{plan.server}-backlog", orders, plan, book, {"ours": lambda _: ours.until_current()})
    with scratch(plan.folder / "connect") as folder, kafka.broker(folder / "kafka") as broker, orders_server() as sink:
        scenarios = f"{plan.server}-snapshot", f"{plan.server}-backlog"
        piped(scenarios, orders, plan, book, lambda table: JdbcSink(orders, broker, table, sink.server))


def decode(orders: MysqlOrders, plan: Plan, book: Book) -> None:
    """Read a backlog and drop it: us into Arrow, `mysql-replication` into Python values."""
    orders.make("orders", plan.rows)
    with scratch(plan.folder / "decode") as folder:
        ours = decoding(orders, "orders", folder)
        parser = mysql_clients.RowParse(orders, "orders", folder)
        drains(f"{plan.server}-decode", orders, plan, book, {"ours": ours, "mysql-replication": parser.drain})
