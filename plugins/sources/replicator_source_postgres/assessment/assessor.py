"""The assessor: checks the server once, then one table after the other."""

from __future__ import annotations

from replicator_sdk.discovery.assessment import Assessment, Finding, Severity, TableAssessment, TableAssessor
from replicator_sdk.errors import ReplicatorError
from replicator_sdk.schema import TableSchema
from replicator_source_postgres.assessment.columns import about_column
from replicator_source_postgres.assessment.server import about_server
from replicator_source_postgres.assessment.tables import (
    NamedPublication,
    about_content,
    about_publishing,
    about_reading,
    missing,
)
from replicator_source_postgres.catalogue import Catalogue, CatalogueConnection
from replicator_source_postgres.connection import Endpoint
from replicator_source_postgres.diagnosis import diagnosed
from replicator_source_postgres.replication.publication import Publication


class PostgresTableAssessor(TableAssessor):
    """Checks settings, rights and tables over one connection; changes nothing."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._config = endpoint.config
        self._connection = CatalogueConnection(endpoint)
        self._publication: NamedPublication | None = None

    def assess(self) -> Assessment:
        """Connection, WAL settings, capacity, rights. Reports an unreachable server as a finding."""
        try:
            with diagnosed("assessing the source"):
                return Assessment(tuple(about_server(self._connection.catalogue.connection, self._config)))
        except ReplicatorError as err:
            return Assessment((_unreachable(err),))

    def assess_table(self, schema: TableSchema) -> TableAssessment:
        """Replica identity, rights, row security, generated columns, and how every column is transferred."""
        columns = tuple(map(about_column, schema.columns))
        catalogue = self._connection.catalogue
        with diagnosed(f"assessing {schema.table}"):
            facts = catalogue.find(schema.table)
            if facts is None:
                return TableAssessment(schema.table, columns, (missing(schema.table),))
            findings = about_publishing(catalogue, schema.table, facts, self._named_publication(catalogue))
            findings += about_reading(catalogue, schema.table, facts)
        return TableAssessment(schema.table, columns, tuple(findings + about_content(schema, facts)))

    def _named_publication(self, catalogue: Catalogue) -> NamedPublication | None:
        """The publication that the pipeline names, read once; None when it names none."""
        name = self._config.publication
        if name is not None and self._publication is None:
            self._publication = NamedPublication(name, frozenset(Publication(catalogue, name).tables()))
        return self._publication

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _unreachable(err: ReplicatorError) -> Finding:
    return Finding("connection", Severity.ERROR, err.message, "nothing can be read", err.hint, code=err.code)
