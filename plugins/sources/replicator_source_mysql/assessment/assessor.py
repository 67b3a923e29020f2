"""Finds what will go wrong, with the SQL that fixes it; raises the same as errors before a run."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from replicator_sdk.discovery.assessment import Assessment, Finding, Severity, TableAssessment, TableAssessor
from replicator_sdk.errors import NeedsUserError, ReplicatorError
from replicator_sdk.schema import TableId, TableSchema
from replicator_source_mysql.assessment.columns import column_assessments, column_findings
from replicator_source_mysql.assessment.server import (
    BINLOG_OFF,
    NO_REPLICATION_GRANT,
    NO_SERVER_ID,
    NOT_ROWS,
    REPLICA_WITHOUT_LOG,
    server_findings,
)
from replicator_source_mysql.assessment.server_facts import ServerFacts, server_facts
from replicator_source_mysql.assessment.table_facts import table_facts
from replicator_source_mysql.assessment.tables import (
    CASCADES,
    ENGINE,
    FILTERED,
    IMAGE,
    NO_GRANT,
    NO_LOCK,
    VERSIONED,
    table_findings,
)
from replicator_source_mysql.config import MySqlConfig
from replicator_source_mysql.connect.catalogue import Catalogue
from replicator_source_mysql.connect.connection import Endpoint
from replicator_source_mysql.connect.diagnosis import diagnosed
from replicator_source_mysql.definition import TableDefinition

if TYPE_CHECKING:
    import pymysql

_STOPS_SERVER = frozenset({BINLOG_OFF, NOT_ROWS, NO_REPLICATION_GRANT, NO_SERVER_ID, REPLICA_WITHOUT_LOG})
_STOPS_TABLE = frozenset({CASCADES, ENGINE, VERSIONED, FILTERED, IMAGE, NO_GRANT, NO_LOCK})


def check_server(connection: pymysql.Connection[Any]) -> None:
    """Refuse a server whose binlog cannot be replicated from.

    Raises:
        NeedsUserError: With the statement that fixes it: no binlog (RPL-3840), not of rows (RPL-3841), no replication
            grant (RPL-3842), server id 0 (RPL-3848), a replica that does not log (RPL-3849).
    """
    with diagnosed("checking the server"):
        _raise_first(server_findings(server_facts(connection)), _STOPS_SERVER)


def check_tables(
    connection: pymysql.Connection[Any],
    tables: Collection[TableId],
    config: MySqlConfig,
    definitions: Iterable[TableDefinition] = (),
) -> None:
    """Refuse tables whose changes the binlog does not hold; tables that do not exist are not checked here.

    Args:
        connection: In no transaction.
        tables: The captured tables.
        config: The source's settings.
        definitions: Of those tables, where they are known; without them nothing is said of tables without a key.

    Raises:
        NeedsUserError: For the first such table: rows changed by a foreign key (RPL-3843), an engine without a row log
            (RPL-3844), system versioning (RPL-3845), a database kept out of the log (RPL-3846), no key without full
            images (RPL-3847), no SELECT (RPL-3851), no LOCK TABLES for a table without a key (RPL-3852).
    """
    known = {definition.table: definition for definition in definitions}
    with diagnosed("checking the tables"):
        server, facts = server_facts(connection), table_facts(connection, tables)
    ignores = config.foreign_key_cascades == "ignore"
    for table in sorted(facts):
        found = table_findings(facts[table], known.get(table), server, ignores_cascades=ignores)
        _raise_first(found, _STOPS_TABLE)


def _raise_first(findings: Iterable[Finding], codes: Collection[str]) -> None:
    for finding in findings:
        if finding.severity is Severity.ERROR and finding.code in codes:
            step = f"{finding.suggestion}: {finding.fix}" if finding.fix else finding.suggestion
            raise NeedsUserError(
                f"{finding.description}; {finding.impact}",
                code=finding.code,
                hint=" ".join(step.split()),
                table=str(finding.table) if finding.table else None,
            )


class MySqlTableAssessor(TableAssessor):
    """Looks at settings, rights and tables over one connection; changes nothing."""

    def __init__(self, endpoint: Endpoint, server_id: int | None = None) -> None:
        """Stores the endpoint; connects at the first call.

        Args:
            endpoint: Where to connect.
            server_id: The pipeline's server id, when it is known; the settings' own otherwise.
        """
        self._endpoint = endpoint
        self._server_id = server_id or endpoint.config.server_id
        self._catalogue: Catalogue | None = None
        self._server: ServerFacts | None = None

    def _open(self) -> tuple[Catalogue, ServerFacts]:
        if self._catalogue is None:
            self._catalogue = Catalogue(self._endpoint.connect())
        if self._server is None:
            with diagnosed("assessing the source"):
                self._server = server_facts(self._catalogue.connection)
        return self._catalogue, self._server

    def assess(self) -> Assessment:
        """Binlog, retention, identity, rights. Reports what it cannot reach as a finding."""
        self._server = None
        try:
            _, server = self._open()
        except ReplicatorError as err:
            return Assessment(
                (Finding("connection", Severity.ERROR, err.message, "nothing can be read", err.hint, code=err.code),)
            )
        return Assessment(tuple(server_findings(server, self._server_id)))

    def assess_table(self, schema: TableSchema) -> TableAssessment:
        """Engine, key, foreign keys, rights, retention, and how each of its columns in `schema` arrives."""
        table, config = schema.table, self._endpoint.config
        catalogue, server = self._open()
        with diagnosed(f"assessing {table}"):
            definition = catalogue.find(table)
            facts = table_facts(catalogue.connection, [table]).get(table)
        if definition is None or facts is None:
            return TableAssessment(table, (), (_missing(table),))
        columns = tuple(c for c in column_assessments(definition, config.zero_dates) if c.name in schema)
        ignores = config.foreign_key_cascades == "ignore"
        found = table_findings(facts, definition, server, ignores_cascades=ignores)
        return TableAssessment(table, columns, tuple(found + column_findings(table, columns)))

    def close(self) -> None:
        """Close the connection."""
        if self._catalogue is not None:
            with contextlib.suppress(Exception):
                self._catalogue.connection.close()
            self._catalogue = None


def _missing(table: TableId) -> Finding:
    return Finding(
        "missing_table",
        Severity.ERROR,
        f"there is no table {table} that the account may see",
        "it cannot be replicated",
        "check the name, which may be case-sensitive, and the account's grants",
        table=table,
        code="RPL-3825",
    )
