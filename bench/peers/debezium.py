"""Debezium's connectors, and its embedded engine into a null sink: decoding alone, as Java's side of the field does it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import singledispatch
from pathlib import Path
from zlib import crc32

from bench.data.mysql_orders import MysqlOrders
from bench.data.postgres_orders import PUBLICATION, Orders
from bench.data.source import DATABASE, Source
from bench.peers import install
from bench.process import Cost, run

SLOT = "bench_debezium"
_REPEATED = 10  # it may begin with the last change of the drain before


def connector_settings(orders: Orders | MysqlOrders, reader: str, table: str, **more: str) -> dict[str, str]:
    """Settings of Debezium's connector for one table, known to the server as `reader`."""
    server = orders.server
    return {
        "database.hostname": server.host,
        "database.port": str(server.port),
        "database.user": server.user,
        "database.password": server.password,
        "table.include.list": f"{orders.parent}.{table}",
        "tombstones.on.delete": "false",
        "max.batch.size": "8192",
        "max.queue.size": "32768",
        "poll.interval.ms": "100",
        **_own_settings(orders, reader),
        **more,
    }


@singledispatch
def _own_settings(orders: Source, reader: str) -> dict[str, str]:
    raise NotImplementedError(f"no connector reads {orders.plugin} as {reader}")


@_own_settings.register
def _(orders: Orders, reader: str) -> dict[str, str]:
    del orders
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.dbname": DATABASE,
        "plugin.name": "pgoutput",
        "publication.name": PUBLICATION,
        "publication.autocreate.mode": "disabled",
        "slot.name": reader,
        "snapshot.fetch.size": "10240",
    }


@_own_settings.register
def _(orders: MysqlOrders, reader: str) -> dict[str, str]:
    connector = "mariadb.MariaDbConnector" if orders.server.is_mariadb else "mysql.MySqlConnector"
    return {
        "connector.class": f"io.debezium.connector.{connector}",
        "database.include.list": DATABASE,
        "database.server.id": str(crc32(reader.encode()) | 1),
        "database.ssl.mode": "disable" if orders.server.is_mariadb else "disabled",
        "driver.allowPublicKeyRetrieval": "true",
        "include.schema.changes": "false",
    }


def prepare(orders: Orders) -> None:
    """Keep all changes from now on."""
    orders.slot(SLOT)


def drain(orders: Orders, table: str, changes: int, folder: Path) -> Cost:
    """Read `changes` changes as records and drop them; the next drain starts after them.

    The seconds are those its process says, from the engine's start to the last change.
    """
    settings = connector_settings(
        orders,
        SLOT,
        table,
        **{
            "name": "bench",
            "topic.prefix": "bench",
            "snapshot.mode": "no_data",
            "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
            "offset.storage.file.filename": str(folder / "debezium.offsets"),
            "offset.flush.interval.ms": "5000",
        },
    )
    return _engine(changes, settings, folder / "debezium.log")


def _engine(changes: int, settings: Mapping[str, str], log: Path) -> Cost:
    jars = install.jars("debezium-embedded")
    classes = install.java_class(Path(__file__).with_name("NullSink.java"), jars)
    java = [
        "java",
        "-Xmx2g",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
        "-cp",
        f"{classes}:{jars}/*",
        "NullSink",
    ]
    cost = run([*java, str(changes), "300", *(f"{name}={value}" for name, value in settings.items())], log)
    found, _, seconds = log.read_text().splitlines()[-1].split()
    if not 0 <= int(found) - changes <= _REPEATED:
        raise AssertionError(f"Debezium saw {found} of {changes} changes")
    return replace(cost, seconds=float(seconds))
