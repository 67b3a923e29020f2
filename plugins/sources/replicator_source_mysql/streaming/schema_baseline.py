"""Reads the definitions of tables at one log position, where history begins."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from replicator_sdk.errors import RetryableError
from replicator_sdk.schema import TableId
from replicator_source_mysql.binlog.log_availability import Origin, current_offset
from replicator_source_mysql.connect.catalogue import Catalogue
from replicator_source_mysql.connect.connection import execute, quote_identifier
from replicator_source_mysql.definition import TableDefinition, UniqueKey
from replicator_source_mysql.offset import MySqlOffset

if TYPE_CHECKING:
    import pymysql

_ATTEMPTS = 30
_PAUSE_SECONDS = 0.2

Definitions = dict[TableId, TableDefinition]


@dataclass(frozen=True, slots=True)
class Baseline:
    """Tables as they were at an offset.

    Attributes:
        offset: The offset.
        databases: The databases they are in, all tables of them, each with its default character set.
        definitions: The tables.
        indexes: Their indexes that are not unique.
    """

    offset: MySqlOffset
    databases: Mapping[str, str]
    definitions: Mapping[TableId, TableDefinition]
    indexes: Mapping[TableId, tuple[UniqueKey, ...]]

    def to_json(self) -> dict[str, Any]:
        """The form kept in state."""
        return {
            "offset": self.offset.to_json(),
            "databases": dict(self.databases),
            "tables": [definition.to_json() for definition in self.definitions.values()],
            "indexes": [
                {"table": table.to_json(), "keys": [[key.name, list(key.columns)] for key in keys]}
                for table, keys in self.indexes.items()
            ],
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """The inverse of `to_json`."""
        definitions = map(TableDefinition.from_json, value["tables"])
        indexes = {
            TableId.from_json(entry["table"]): tuple(UniqueKey(name, tuple(columns)) for name, columns in entry["keys"])
            for entry in value["indexes"]
        }
        offset = MySqlOffset.from_json(value["offset"])
        return cls(offset, value["databases"], {d.table: d for d in definitions}, indexes)


def read_baseline(
    connection: pymysql.Connection[Any], origin: Origin, databases: Collection[str], captured: Collection[TableId]
) -> Baseline:
    """All tables of `databases`, and an offset at which they were as they are returned.

    The catalogue is read, then the log's end, then the catalogue again: what it says both times was so at that end. A
    statement that is in the log but not yet in the catalogue holds a lock on its table, so the captured tables are
    touched before each reading.

    A distributed transaction that is prepared by then would commit later with rows from before, so none may be. An account
    without the right to list them is believed; the reader refuses such a commit when it sees one.

    Raises:
        RetryableError: When the structure changes so often, or transactions stay prepared so long, that no quiet moment is
            found.
    """
    catalogue = Catalogue(connection)
    prepared = 0
    for _ in range(_ATTEMPTS):
        before = _read(catalogue, databases, captured)
        offset = current_offset(connection, origin)
        prepared = _prepared(connection)
        if not prepared and _read(catalogue, databases, captured) == before:
            return Baseline(offset, _charsets(connection, databases), *before)
        time.sleep(_PAUSE_SECONDS)
    if prepared:
        raise RetryableError(
            f"{prepared} distributed transactions are prepared, and what they changed is before the position reading begins at",
            code="RPL-3796",
            hint="commit or roll them back (XA RECOVER lists them); the attempt is repeated",
        )
    raise RetryableError(
        f"the structure of {', '.join(sorted(databases))} changes all the time",
        code="RPL-3787",
        hint="the attempt is repeated; start when no migration runs",
    )


def _read(
    catalogue: Catalogue, databases: Collection[str], captured: Collection[TableId]
) -> tuple[Definitions, dict[TableId, tuple[UniqueKey, ...]]]:
    for table in captured:
        name = f"{quote_identifier(table.database)}.{quote_identifier(table.table)}"
        execute(catalogue.connection, f"SELECT 1 FROM {name} LIMIT 0")  # noqa: S608 - quoted names
    return catalogue.definitions(databases), catalogue.indexes(databases)


def _charsets(connection: pymysql.Connection[Any], databases: Collection[str]) -> dict[str, str]:
    rows = execute(connection, "SELECT SCHEMA_NAME, DEFAULT_CHARACTER_SET_NAME FROM information_schema.SCHEMATA")
    wanted = {name.lower() for name in databases}
    return {str(name): str(charset) for name, charset in rows if str(name).lower() in wanted}


def _prepared(connection: pymysql.Connection[Any]) -> int:
    from pymysql import MySQLError

    try:
        return len(execute(connection, "XA RECOVER"))
    except MySQLError:
        return 0  # the right to list them (XA_RECOVER_ADMIN) is missing
