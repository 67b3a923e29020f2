"""The target `iceberg` beside the target `delta`: the same tables and the same log, in turn."""

from __future__ import annotations

from typing import Any, Final

import pyarrow.compute as pc
from pyiceberg.table import StaticTable

from bench.comparisons.turns import Copy, Drain, Plan, copies, drains, scratch
from bench.data.postgres_orders import Orders
from bench.data.source import Fingerprint
from bench.measure import Book
from bench.ours import Ours
from bench.peers import recvlogical
from tests.plugins.targets.iceberg.warehouse import newest_metadata

ICEBERG_SNAPSHOT: Final = "iceberg-snapshot"
ICEBERG_BACKLOG: Final = "iceberg-backlog"
INTO_DELTA: Final = "ours, into Delta"


class IntoIceberg(Ours):
    """A replicator into Iceberg tables of a catalog of folders, with the target's defaults."""

    def target(self) -> tuple[str, dict[str, Any]]:
        """Plugin and properties."""
        return "iceberg", {"catalog": "lake", "catalogType": "hadoop", "warehouse": str(self.lake)}

    def fingerprint(self, table: str) -> Fingerprint:
        """The copy's, read by `pyiceberg`."""
        found = StaticTable.from_metadata(str(newest_metadata(self.table(table))))
        rows = found.scan(selected_fields=("id", "quantity")).to_arrow()
        sums = (pc.sum(rows.column(name)).as_py() or 0 for name in ("id", "quantity"))
        return Fingerprint(rows.num_rows, *(int(value) for value in sums))


def snapshot(orders: Orders, plan: Plan, book: Book) -> None:
    """Copy a table into Iceberg, and into Delta."""
    sides: dict[str, Copy] = {
        "ours": lambda table, folder: IntoIceberg(orders, folder, [table]).until_current(),
        INTO_DELTA: lambda table, folder: Ours(orders, folder, [table]).until_current(),
    }
    copies(ICEBERG_SNAPSHOT, orders, plan, book, sides)


def backlog(orders: Orders, plan: Plan, book: Book) -> None:
    """Merge a backlog into an Iceberg table, and into a Delta table; and read it with `pg_recvlogical`."""
    orders.make("orders", plan.rows)
    recvlogical.prepare(orders)
    with scratch(plan.folder / "iceberg") as folder:
        replicators = {
            "ours": IntoIceberg(orders, folder / "iceberg", ["orders"]),
            INTO_DELTA: Ours(orders, folder / "delta", ["orders"]),
        }
        for replicator in replicators.values():
            replicator.until_current()
        sides: dict[str, Drain] = {side: _drain(one) for side, one in replicators.items()}
        sides["pg_recvlogical"] = lambda _: recvlogical.drain(orders, plan.folder)
        drains(ICEBERG_BACKLOG, orders, plan, book, sides)
    orders.forget()


def _drain(replicator: Ours) -> Drain:
    return lambda _: replicator.until_current()
