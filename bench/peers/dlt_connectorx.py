"""dlt with connectorx into Delta: the fastest snapshot there is."""

from __future__ import annotations

from pathlib import Path

from deltalake import DeltaTable

from bench.data.postgres_orders import Orders
from bench.peers import install
from bench.process import Cost, run


def snapshot(orders: Orders, table: str, folder: Path) -> Cost:
    """Copy `table` once into a new Delta table below `folder`; checks that all rows came."""
    script = Path(__file__).with_name("dlt_delta.py")
    folder.mkdir(parents=True)
    cost = run([install.python("dlt"), script, orders.url, table, folder], folder / "log")
    found = DeltaTable(str(folder / "lake/raw" / table)).to_pyarrow_dataset().count_rows()
    wanted = orders.fingerprint(table).rows
    if found != wanted:
        raise AssertionError(f"dlt copied {found} of {wanted} rows")
    return cost
