"""A real Prometheus reads a run's metrics and evaluates the shipped rules, while source, target and a table break and recover."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from replicator_runtime.monitoring.alerts import rules
from replicator_runtime.monitoring.dashboard import queries
from tests.end_to_end.commands.two_tables import put_back
from tests.end_to_end.replicator import Replicator, Running, mysql_source, postgres_source
from tests.services.mysql.server import MysqlDatabase
from tests.services.network import NetworkTo, Proxy
from tests.services.postgres.server import PostgresDatabase
from tests.services.processes import LOOPBACK, free_port
from tests.services.prometheus.server import Prometheus

_TABLES = ("item", "note")


@dataclass
class Shop:
    """A replicator of two tables whose source is reached through a network that can break.

    Attributes:
        database: The source.
        network: What its replicator reaches it through.
        replicator: The replicator.
        lake: The folder of the copies.
    """

    database: PostgresDatabase | MysqlDatabase
    network: Proxy
    replicator: Replicator
    lake: Path
    _rows: int = 0

    def change(self, table: str = "item") -> None:
        """Insert one more row."""
        self._rows += 1
        self.database.execute(f"INSERT INTO {table} VALUES ({self._rows}, 'x')")


@pytest.fixture(params=["postgres", "mysql"])
def shop(request: pytest.FixtureRequest, network: NetworkTo, tmp_path: Path) -> Shop:
    """A shop at PostgreSQL and one at MySQL."""
    database = request.getfixturevalue(f"{request.param}_database")
    for table in _TABLES:
        database.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, name varchar(20))")
    proxy = network(database.port)
    if isinstance(database, PostgresDatabase):
        source, schema = postgres_source(database, port=proxy.port), "public"
    else:
        source, schema = mysql_source(database, port=proxy.port), database.name
    tables = [{"schema" if schema == "public" else "database": schema, "table": table} for table in _TABLES]
    replicator = Replicator(tmp_path, source, settings={"retries": {"delaySeconds": 0.5}, "tables": tables})
    return Shop(database, proxy, replicator, replicator.lake / schema)


@dataclass
class Watched:
    """The shop's run, which a Prometheus reads; the rules count seconds where the shipped ones count minutes."""

    shop: Shop
    prometheus: Prometheus
    address: str
    running: Running

    def fires(self, *names: str) -> None:
        """Wait until these alerts fire, and no others."""
        self.prometheus.wait(lambda: self.prometheus.firing().keys() == {*names}, f"other alerts than {names}")

    def applied(self, changes: int) -> None:
        """Wait until the run has applied so many changes."""
        counted = "sum(replicator_changes_total)"
        self.prometheus.wait(lambda: self.prometheus.value(counted) == {(): changes}, f"not {changes} changes")

    def restart(self) -> None:
        """Start the run again; it has ended."""
        self.running = self.shop.replicator.start("--metrics-address", self.address)


@pytest.fixture
def watched(shop: Shop, tmp_path: Path) -> Iterator[Watched]:
    """A run that streams."""
    for table in _TABLES:
        shop.change(table)
    address = f"{LOOPBACK}:{free_port()}"
    (tmp_path / "rules.yml").write_text(rules(minute="s"))
    with Prometheus(tmp_path, [address], tmp_path / "rules.yml") as prometheus:
        watched = Watched(shop, prometheus, address, shop.replicator.start("--metrics-address", address))
        streams = "sum(replicator_phase{phase='streaming'})"
        prometheus.wait(lambda: prometheus.value(streams) == {(): 1}, "does not stream")
        yield watched
        watched.running.kill()


@pytest.mark.timeout(600)
def test_alerts_fire_while_a_source_a_table_or_the_run_is_broken_and_end_afterwards(
    watched: Watched, tmp_path: Path
) -> None:
    shop = watched.shop
    shop.change()
    watched.applied(1)
    watched.fires()

    shop.network.cut()
    shop.change()
    watched.fires("ReplicatorRunFails")
    shop.network.clear()
    watched.applied(2)
    watched.fires()

    shop.network.freeze()
    shop.change()
    watched.fires("ReplicatorSourceSilent")
    shop.network.clear()
    watched.applied(3)
    watched.fires()

    log = shop.lake / "item" / "_delta_log"
    log.rename(tmp_path / "taken")
    shop.change()
    shop.change("note")
    watched.fires("ReplicatorTableFails")
    watched.applied(4)
    put_back(tmp_path / "taken", log)
    retry = ("table", "retry", str(shop.replicator.pipeline), f"{shop.lake.name}.item")
    assert shop.replicator.start_command(*retry).wait().status == 0
    watched.applied(5)
    watched.fires()

    watched.running.kill()
    watched.fires("ReplicatorRunGone")
    watched.restart()
    watched.fires()
    for query in queries():
        watched.prometheus.value(query)  # one that Prometheus does not understand is an error
