"""Settings of Debezium's connectors for the databases of the tests."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

from tests.services.connect.worker import JSON
from tests.services.kafka.broker import KafkaBroker
from tests.services.mysql.server import MysqlDatabase
from tests.services.postgres.server import PostgresDatabase

_SCHEMALESS = {  # a converter's settings count only beside the converter itself
    name: value
    for part in ("key", "value")
    for name, value in ((f"{part}.converter", JSON), (f"{part}.converter.schemas.enable", False))
}


def postgres_connector(
    database: PostgresDatabase, prefix: str, tables: Sequence[str], *, schemas: bool = True, **more: object
) -> dict[str, object]:
    """Settings of the Postgres connector: the tables, as regular expressions for `schema.table`, to `prefix.schema.table`.

    It makes its own slot and publication, which go with the test's database.

    Args:
        database: The source.
        prefix: Of the topics.
        tables: What to read.
        schemas: Whether each record says its schema.
        **more: Further settings, with `_` for `.`.
    """
    name = f"debezium_{crc32(prefix.encode()):08x}"
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "plugin.name": "pgoutput",
        "slot.name": name,
        "publication.name": name,
        "publication.autocreate.mode": "filtered",
        "database.dbname": database.name,
        "table.include.list": _listed(tables),
        **_common(database, prefix, schemas=schemas),
        **_dotted(more),
    }


def mysql_connector(
    database: MysqlDatabase,
    broker: KafkaBroker,
    prefix: str,
    tables: Sequence[str],
    *,
    schemas: bool = True,
    **more: object,
) -> dict[str, object]:
    """Settings of the MySQL connector: the tables, as regular expressions, to `prefix.database.table`.

    Args:
        database: The source.
        broker: Where it keeps what tables looked like.
        prefix: Of the topics.
        tables: What to read.
        schemas: Whether each record says its schema.
        **more: Further settings, with `_` for `.`.
    """
    return {
        "connector.class": "io.debezium.connector.mysql.MySqlConnector",
        "database.include.list": database.name,
        "database.server.id": crc32(prefix.encode()) | 1,
        "database.ssl.mode": "disabled",
        "driver.allowPublicKeyRetrieval": True,
        "schema.history.internal.kafka.bootstrap.servers": broker.bootstrap,
        "schema.history.internal.kafka.topic": f"{prefix}-history",
        "table.include.list": _listed([f"{database.name}\\.{table}" for table in tables]),
        **_common(database, prefix, schemas=schemas),
        **_dotted(more),
    }


def _common(database: PostgresDatabase | MysqlDatabase, prefix: str, *, schemas: bool) -> dict[str, object]:
    return {
        "topic.prefix": prefix,
        "database.hostname": database.host,
        "database.port": database.port,
        "database.user": database.user,
        "database.password": database.password,
        "poll.interval.ms": 50,
        "topic.creation.default.replication.factor": 1,
        "topic.creation.default.partitions": 3,
        **({} if schemas else _SCHEMALESS),
    }


def _dotted(settings: dict[str, object]) -> dict[str, object]:
    return {name.replace("_", "."): value for name, value in settings.items()}


def _listed(expressions: Sequence[str]) -> str:
    return ",".join(expression.replace(",", "\\,") for expression in expressions)
