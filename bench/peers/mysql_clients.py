"""What reads MySQL without us: connectorx into memory, a DB-API cursor into Delta, `mysql-replication` parsing rows."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

from deltalake import DeltaTable

from bench.data.mysql_orders import MysqlOrders
from bench.data.source import DATABASE, Fingerprint
from bench.peers import install
from bench.process import Cost, run


def connectorx(orders: MysqlOrders, table: str, folder: Path) -> Cost:
    """Read `table` into Arrow with connectorx; nothing is written. Checks the fingerprint."""
    folder.mkdir(parents=True)
    script = Path(__file__).with_name("connectorx_arrow.py")
    cost = run([install.python("connectorx"), script, orders.url, table], folder / "log")
    found = Fingerprint(*(int(number) for number in (folder / "log").read_text().split()[-3:]))
    wanted = orders.fingerprint(table)
    if found != wanted:
        raise AssertionError(f"connectorx read {found}, the source has {wanted}")
    return cost


def cursor(orders: MysqlOrders, table: str, folder: Path) -> Cost:
    """Copy `table` into Delta through a DB-API cursor; checks that all rows came."""
    folder.mkdir(parents=True)
    module = [sys.executable, "-m", "bench.peers.dbapi_delta", json.dumps(orders.account), DATABASE]
    cost = run([*module, table, folder / "lake"], folder / "log")
    found = DeltaTable(str(folder / "lake")).to_pyarrow_dataset().count_rows()
    wanted = orders.fingerprint(table).rows
    if found != wanted:
        raise AssertionError(f"the cursor copied {found} of {wanted} rows")
    return cost


class RowParse:
    """`mysql-replication`'s reader of one table, from the log's end on."""

    def __init__(self, orders: MysqlOrders, table: str, folder: Path) -> None:
        self._orders, self._table, self._log = orders, table, folder / "rowparse.log"
        self._place = orders.position()

    def drain(self, changes: int) -> Cost:
        """Parse the rows of `changes` changes up to the log's end; the seconds are those its process says."""
        file, position = self._place
        module = [sys.executable, "-m", "bench.peers.rowparse", json.dumps(self._orders.account), DATABASE]
        cost = run([*module, self._table, file, str(position)], self._log)
        found, seconds = self._log.read_text().split()[-2:]
        if int(found) != changes:
            raise AssertionError(f"mysql-replication saw {found} of {changes} changes")
        self._place = self._orders.position()
        return replace(cost, seconds=float(seconds))
