"""How a comparison goes: the sides take turns on the same rows and changes, each a small run and a large one."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from bench.data.source import Source
from bench.measure import Book, marginal
from bench.peers.connect import ConnectPeer
from bench.process import Cost

Copy: TypeAlias = Callable[[str, Path], Cost]
"""Copies a table into a new folder."""
Drain: TypeAlias = Callable[[int], Cost]
"""Reads that many changes, all since it did so last."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much to measure.

    Attributes:
        rounds: How often; medians are over them.
        rows: Rows of the table that is changed.
        changes: Changes of the large backlog; the small one has a tenth.
        folder: Where everything lands; emptied as it goes.
        server: Which server is used as MySQL: `mysql` or `mariadb`.
    """

    rounds: int
    rows: int
    changes: int
    folder: Path
    server: str = "mysql"


def copies(scenario: str, orders: Source, plan: Plan, book: Book, sides: Mapping[str, Copy]) -> None:
    """Copy a table, large less small; the large one is four times the plan's, or starting up drowns it."""
    sizes = {"orders_small": plan.rows // 10, "orders": 4 * plan.rows}
    for table, rows in sizes.items():
        orders.make(table, rows)
    for number in range(plan.rounds):
        for side, copy in sides.items():
            costs = {}
            for table, rows in sizes.items():
                with scratch(plan.folder / f"snapshot_{table}_{number}") as folder:
                    costs[table] = (rows, copy(table, folder))
                orders.forget()
            book.add(marginal(scenario, side, number, costs["orders_small"], costs["orders"]))


def drains(scenario: str, orders: Source, plan: Plan, book: Book, sides: Mapping[str, Drain]) -> None:
    """Change `orders` and let every side read the changes, large less small; all read the same log."""
    for number in range(plan.rounds):
        costs: dict[str, list[tuple[int, Cost]]] = {side: [] for side in sides}
        for share in (10, 1):
            done = orders.churn("orders", plan.changes // share, seed=(number + 1 / share) / 100)
            for side, drain in sides.items():
                costs[side].append((done, drain(done)))
        for side, (small, large) in costs.items():
            book.add(marginal(scenario, side, number, small, large))


def piped(
    scenarios: tuple[str, str], orders: Source, plan: Plan, book: Book, peer_of: Callable[[str], ConnectPeer]
) -> None:
    """A snapshot, then a backlog, through Debezium, Kafka and a sink; one round, they take minutes.

    Fewer rows and changes than for the others: at their rates starting up is small beside them.
    """
    snapshot, backlog = scenarios
    orders.make("orders_small", plan.rows // 10)
    small = peer_of("orders_small").drain(plan.rows // 10)
    orders.make("orders", plan.rows)
    peer = peer_of("orders")
    side, arrived = f"Debezium-{peer.name}", plan.rows
    book.add(marginal(snapshot, side, 0, (plan.rows // 10, small), (arrived, peer.drain(arrived))))

    def drain(changes: int) -> Cost:
        nonlocal arrived
        arrived += changes
        return peer.drain(arrived)

    drains(backlog, orders, replace(plan, rounds=1, changes=plan.changes // 4), book, {side: drain})
    orders.forget()


@contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """A folder that is gone afterwards."""
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
