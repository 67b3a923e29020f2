"""What tests of faults share: a prepared table, its slot, and the error that ends a reader."""

from __future__ import annotations

from collections.abc import Callable

from replicator_sdk.testing.contexts import CollectingEmitter
from tests.plugins.sources.postgres.pump import Pump, Run

PREPARED = "CREATE TABLE t (id int PRIMARY KEY, v text)"


def ids(pump: Pump) -> list[int]:
    """The ids of the rows a further read brings."""
    return [row["id"] for _, row, _, _ in pump.read().changes("t")]


def slot_of(pump: Pump) -> str:
    rows = pump.database.execute(
        f"SELECT slot_name FROM pg_replication_slots WHERE database = '{pump.database.name}' AND NOT temporary"
    )
    return str(rows[0][0])


def error_of(pump: Pump, break_off: Callable[[Run], object]) -> BaseException | None:
    """What ends a reader that has read everything when `break_off` happens."""
    run = Run(pump, CollectingEmitter())
    try:
        run.wait_for(pump.source.latest_offset())
        break_off(run)
        run.wait_until(lambda: run.error is not None)
    finally:
        run.stop()
    return run.error


def publication_of(pump: Pump) -> str:
    return str(pump.database.execute("SELECT pubname FROM pg_publication")[0][0])
