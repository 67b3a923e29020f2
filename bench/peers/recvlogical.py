"""`pg_recvlogical` into /dev/null: how fast the server itself sends the changes; nothing that reads a slot is faster."""

from __future__ import annotations

from pathlib import Path

from bench.data.postgres_orders import PUBLICATION, Orders, client_environment, client_program
from bench.data.source import DATABASE
from bench.process import Cost, run

SLOT = "bench_recvlogical"


def prepare(orders: Orders) -> None:
    """Keep all changes from now on."""
    orders.slot(SLOT)


def drain(orders: Orders, folder: Path) -> Cost:
    """Read everything up to now; the next drain starts there."""
    command: list[str | Path] = [
        client_program("pg_recvlogical"), "--dbname", DATABASE, "--slot", SLOT, "--start", "--no-loop", "--endpos", orders.position(),
        "--file", "/dev/null", "--option", "proto_version=1", "--option", f"publication_names={PUBLICATION}",
    ]  # fmt: skip
    return run(command, folder / "recvlogical.log", environment=client_environment(orders))
