"""Findings about one table: publishing, reading, content."""

from __future__ import annotations

from dataclasses import dataclass

from replicator_sdk.discovery.assessment import Finding, Severity
from replicator_sdk.errors import ReplicatorError
from replicator_sdk.schema import TableId, TableSchema
from replicator_source_postgres.catalogue import Catalogue, TableFacts
from replicator_source_postgres.connection import quote_identifier
from replicator_source_postgres.replication.publication import check_publishable, published_as, qualified

_OWNER = """
SELECT pg_catalog.pg_has_role(c.relowner, 'USAGE'), o.rolname
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_roles o ON o.oid = c.relowner WHERE c.oid = %s
"""

_RIGHTS = """
SELECT pg_catalog.has_schema_privilege(%s, 'USAGE'), pg_catalog.has_table_privilege(%s::oid, 'SELECT'),
       pg_catalog.row_security_active(%s::oid), current_user::text
"""


@dataclass(frozen=True, slots=True)
class NamedPublication:
    """The publication that the pipeline names.

    Attributes:
        name: Its name.
        tables: The identifiers of the tables that it has; empty when it does not exist.
    """

    name: str
    tables: frozenset[int]


def missing(table: TableId) -> Finding:
    """The finding for a table that does not exist."""
    return Finding(
        "missing_table",
        Severity.ERROR,
        f"there is no table {table}",
        "it cannot be replicated",
        "check the name; it is case-sensitive",
        table=table,
        code="RPL-3301",
    )


def about_publishing(
    catalogue: Catalogue, table: TableId, facts: TableFacts, publication: NamedPublication | None
) -> list[Finding]:
    """Whether publishing the table leaves the application's statements working, and whether the role may publish it.

    Args:
        catalogue: The source's catalogue.
        table: The table as the pipeline names it.
        facts: The table as the server knows it.
        publication: The one that the pipeline names; None when the pipeline names none.
    """
    findings = []
    try:
        check_publishable(catalogue, table, facts)
    except ReplicatorError as err:
        impact = "the application's UPDATE and DELETE would fail, or changes would not be in the log"
        findings.append(
            Finding(
                "replica_identity" if err.code == "RPL-3306" else "persistence",
                Severity.ERROR,
                err.message,
                impact,
                err.hint,
                fix=err.hint[err.hint.find("ALTER") :].partition("; then")[0].removesuffix(";") + ";",
                table=table,
                code=err.code,
            )
        )
    row = catalogue.connection.execute(_OWNER, [facts.oid]).fetchone()
    if row and not row[0] and (publication is None or facts.oid not in publication.tables):
        findings.append(_not_owned(table, facts, row[1], publication))
    return findings


def _not_owned(table: TableId, facts: TableFacts, owner: str, publication: NamedPublication | None) -> Finding:
    if publication is None:
        return Finding(
            "ownership",
            Severity.WARNING,
            f"the role does not own {table}",
            "it cannot add the table to a publication; a publication that includes it already is used as it is",
            f"let {owner} add the table to a publication, and name that in `publication` of the pipeline",
            fix=f"ALTER PUBLICATION <publication> ADD TABLE {published_as(facts)};",
            table=table,
            code="RPL-3303",
        )
    return Finding(
        "ownership",
        Severity.ERROR,
        f"the publication {publication.name!r} does not include {table}, and the role does not own the table",
        "the role cannot add the table, so the table is not replicated",
        f"let {owner} add the table to the publication",
        fix=f"ALTER PUBLICATION {quote_identifier(publication.name)} ADD TABLE {published_as(facts)};",
        table=table,
        code="RPL-3303",
    )


def about_reading(catalogue: Catalogue, table: TableId, facts: TableFacts) -> list[Finding]:
    """Whether a snapshot may read all its rows."""
    findings = []
    row = catalogue.connection.execute(_RIGHTS, [facts.schema, facts.oid, facts.oid]).fetchone()
    usage, select, hidden, role = row or (False, False, False, "")
    who = quote_identifier(role)
    if not (usage and select):
        findings.append(
            Finding(
                "grants",
                Severity.ERROR,
                f"the role may not read {table}",
                "the snapshot fails",
                "grant the right to read",
                fix=f"GRANT USAGE ON SCHEMA {quote_identifier(facts.schema)} TO {who};"
                f" GRANT SELECT ON {qualified(facts)} TO {who};",
                table=table,
                code="RPL-3302",
            )
        )
    if hidden:
        findings.append(
            Finding(
                "row_security",
                Severity.ERROR,
                f"policies may hide rows of {table} from the role",
                "a snapshot would miss rows, so the server refuses it",
                "let the role see all rows",
                fix=f"ALTER ROLE {who} BYPASSRLS;",
                table=table,
            )
        )
    return findings


def about_content(schema: TableSchema, facts: TableFacts) -> list[Finding]:
    """Which columns are excluded, and what is slow."""
    findings = []
    if facts.generated:
        findings.append(
            Finding(
                "generated_columns",
                Severity.INFO,
                f"the generated columns {list(facts.generated)} of {schema.table} are excluded",
                "the log does not carry them",
                "compute them at the target",
                table=schema.table,
            )
        )
    if not facts.key and not facts.is_blocking:
        findings.append(
            Finding(
                "no_key",
                Severity.WARNING,
                f"{schema.table} has no primary key",
                "rows are compared by all their columns, which is slow, and its snapshot cannot be resumed",
                "add a primary key",
                table=schema.table,
            )
        )
    return findings
