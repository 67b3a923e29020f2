"""Debezium's embedded engine into a null sink: decoding alone, as Java's side of the field does it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from bench.orders import DATABASE, PUBLICATION, Orders
from bench.peers import install
from bench.process import Cost, run

SLOT = "bench_debezium"
_REPEATED = 10  # it may begin with the last change of the drain before


def connector_settings(orders: Orders, slot: str, table: str, **more: str) -> dict[str, str]:
    """Settings of Debezium's Postgres connector for one table, reading a slot of its own."""
    server = orders.server
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": server.host,
        "database.port": str(server.port),
        "database.user": server.user,
        "database.password": server.password,
        "database.dbname": DATABASE,
        "plugin.name": "pgoutput",
        "publication.name": PUBLICATION,
        "publication.autocreate.mode": "disabled",
        "slot.name": slot,
        "table.include.list": f"public.{table}",
        "tombstones.on.delete": "false",
        "max.batch.size": "8192",
        "max.queue.size": "32768",
        "snapshot.fetch.size": "10240",
        "poll.interval.ms": "100",
        **more,
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
