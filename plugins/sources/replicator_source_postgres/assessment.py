"""What will go wrong, and the SQL that mends it: settings, rights, tables, columns."""

from __future__ import annotations

import contextlib

from replicator_sdk.assessment import (
    Assessment,
    ColumnAssessment,
    Finding,
    Severity,
    Support,
    TableAssessment,
    TableAssessor,
)
from replicator_sdk.datatype import STRING, Array, DataType
from replicator_sdk.errors import ReplicatorError
from replicator_sdk.schema import Column, TableId, TableSchema
from replicator_source_postgres.catalogue import Catalogue, TableFacts
from replicator_source_postgres.connection import Endpoint, quote_identifier
from replicator_source_postgres.diagnosis import diagnosed
from replicator_source_postgres.publication import check_publishable, qualified

_SETTINGS = """
SELECT pg_catalog.current_setting('wal_level'), pg_catalog.current_setting('server_version_num')::int4,
       pg_catalog.current_setting('max_replication_slots')::int4, pg_catalog.current_setting('max_wal_senders')::int4,
       (SELECT count(*) FROM pg_catalog.pg_replication_slots),
       (SELECT count(*) FROM pg_catalog.pg_stat_replication),
       (SELECT setting::int8 FROM pg_catalog.pg_settings WHERE name = 'max_slot_wal_keep_size'),
       pg_catalog.pg_is_in_recovery(), pg_catalog.current_setting('server_encoding'),
       (SELECT rolreplication OR rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) OR EXISTS (
         SELECT FROM pg_catalog.pg_roles WHERE rolname = 'rds_replication' AND pg_catalog.pg_has_role(oid, 'MEMBER')),
       pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE'), current_user::text
"""

_FIRST_MINOR_WITHOUT_LOST_TABLES = {13: 130021, 14: 140018, 15: 150013, 16: 160009, 17: 170005}
"""Before these, changes of a table added to a publication while a transaction writes to it could stay out of the log."""

_SLOTS_NEEDED = 3
"""The pipeline's own slot, and two snapshots at a time."""

_LOSSY: dict[str, str] = {
    "numeric": "unbounded numeric arrives as its exact text",
    "interval": "arrives as ISO 8601 text, e.g. P1DT2H",
    "money": "arrives as text in the server's lc_monetary form",
    "time with time zone": "arrives as text",
}

_POLICY_TYPES = {
    "date": "infinity and years outside 1 to 9999 follow outOfRange",
    "timestamp": "infinity and years outside 1 to 9999 follow outOfRange",
    "instant": "infinity and years outside 1 to 9999 follow outOfRange",
    "time": "24:00:00 follows outOfRange",
}


class PostgresTableAssessor(TableAssessor):
    """Looks at settings, rights and tables over one connection; changes nothing."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._catalogue: Catalogue | None = None

    def _open(self) -> Catalogue:
        if self._catalogue is None:
            connection = self._endpoint.connect(statement_timeout_seconds=60)
            self._catalogue = Catalogue(connection, self._endpoint.config.database)
        return self._catalogue

    def assess(self) -> Assessment:
        """Connection, WAL settings, capacity, rights. Reports what it cannot reach as a finding."""
        try:
            catalogue = self._open()
            with diagnosed("assessing the source"):
                row = catalogue.connection.execute(_SETTINGS).fetchone()
        except ReplicatorError as err:
            return Assessment((_unreachable(err),))
        assert row is not None
        (
            level,
            version,
            slots,
            senders,
            used_slots,
            used_senders,
            keep,
            standby,
            encoding,
            may_replicate,
            create,
            role,
        ) = row
        findings = _about_wal(level, keep, standby=standby)
        findings += _about_capacity(slots - used_slots, senders - used_senders, slots, senders)
        findings += _about_version(version, encoding)
        findings += _about_rights(self._endpoint, role, may_replicate=may_replicate, may_create=create)
        return Assessment(tuple(findings))

    def assess_table(self, schema: TableSchema) -> TableAssessment:
        """Replica identity, rights, row security, generated columns, and how every column arrives."""
        columns = tuple(map(_about_column, schema.columns))
        catalogue = self._open()
        with diagnosed(f"assessing {schema.table}"):
            facts = catalogue.find(schema.table)
            if facts is None:
                return TableAssessment(schema.table, columns, (_missing(schema.table),))
            findings = self._about_publishing(catalogue, schema.table, facts)
            findings += self._about_reading(catalogue, schema.table, facts)
        return TableAssessment(schema.table, columns, tuple(findings + _about_content(schema, facts)))

    def _about_publishing(self, catalogue: Catalogue, table: TableId, facts: TableFacts) -> list[Finding]:
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
                    fix=err.hint[err.hint.find("ALTER") :],
                    table=table,
                    code=err.code,
                )
            )
        query = "SELECT pg_catalog.pg_has_role(c.relowner, 'USAGE'), o.rolname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_roles o ON o.oid = c.relowner WHERE c.oid = %s"
        row = catalogue.connection.execute(query, [facts.oid]).fetchone()
        if row and not row[0]:
            findings.append(
                Finding(
                    "ownership",
                    Severity.WARNING,
                    f"the role does not own {table}",
                    "it cannot add the table to a publication; one that has it already is used as it is",
                    f"let {row[1]} add the table to the publication named in the pipeline",
                    fix=f"ALTER PUBLICATION <publication> ADD TABLE {qualified(facts)};",
                    table=table,
                    code="RPL-3303",
                )
            )
        return findings

    def _about_reading(self, catalogue: Catalogue, table: TableId, facts: TableFacts) -> list[Finding]:
        findings = []
        query = """SELECT pg_catalog.has_schema_privilege(%s, 'USAGE'), pg_catalog.has_table_privilege(%s::oid, 'SELECT'),
                          pg_catalog.row_security_active(%s::oid), current_user::text"""
        row = catalogue.connection.execute(query, [facts.schema, facts.oid, facts.oid]).fetchone()
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
                    "a snapshot would miss rows, so the server is told to refuse it",
                    "let the role see all rows",
                    fix=f"ALTER ROLE {who} BYPASSRLS;",
                    table=table,
                )
            )
        return findings

    def close(self) -> None:
        """Close the connection."""
        if self._catalogue is not None:
            with contextlib.suppress(Exception):
                self._catalogue.connection.close()
            self._catalogue = None


def _unreachable(err: ReplicatorError) -> Finding:
    return Finding("connection", Severity.ERROR, err.message, "nothing can be read", err.hint, code=err.code)


def _missing(table: TableId) -> Finding:
    return Finding(
        "missing_table",
        Severity.ERROR,
        f"there is no table {table}",
        "it cannot be replicated",
        "check the name; it is case-sensitive",
        table=table,
        code="RPL-3301",
    )


def _about_wal(level: str, keep_megabytes: int | None, *, standby: bool) -> list[Finding]:
    findings = []
    if level != "logical":
        findings.append(
            Finding(
                "wal_level",
                Severity.ERROR,
                f"wal_level is {level}",
                "the log holds no row changes; no slot can be made",
                "set it and restart the server",
                fix="ALTER SYSTEM SET wal_level = 'logical';",
            )
        )
    if standby:
        findings.append(
            Finding(
                "standby",
                Severity.ERROR,
                "the server is a standby",
                "publications and slots are made at the primary",
                "give the primary's host",
            )
        )
    if keep_megabytes is None or keep_megabytes < 0:
        findings.append(
            Finding(
                "max_slot_wal_keep_size",
                Severity.WARNING,
                "the WAL a slot may hold back is not limited",
                "while the pipeline stands still, WAL fills the source's disk",
                "set a limit the disk can hold; beyond it the slot is lost and a new snapshot is needed",
                fix="ALTER SYSTEM SET max_slot_wal_keep_size = '50GB'; SELECT pg_reload_conf();",
            )
        )
    return findings


def _about_capacity(free_slots: int, free_senders: int, slots: int, senders: int) -> list[Finding]:
    findings = []
    for name, free, now in (
        ("max_replication_slots", free_slots, slots),
        ("max_wal_senders", free_senders, senders),
    ):
        if free < _SLOTS_NEEDED:
            findings.append(
                Finding(
                    name,
                    Severity.ERROR if free < 1 else Severity.WARNING,
                    f"{free} of {name} = {now} are free",
                    f"the pipeline needs one for the log and one for each table read in a snapshot ({_SLOTS_NEEDED})",
                    "raise it and restart the server, or drop slots nobody uses",
                    fix=f"ALTER SYSTEM SET {name} = {now + _SLOTS_NEEDED};",
                    code="RPL-3105",
                )
            )
    return findings


def _about_version(version: int, encoding: str) -> list[Finding]:
    findings = []
    major = version // 10000
    if not 13 <= major <= 18:
        findings.append(
            Finding(
                "version",
                Severity.WARNING if major > 18 else Severity.ERROR,
                f"the server is PostgreSQL {major}",
                "only 13 to 18 are tested",
                "upgrade the server, or this package",
            )
        )
    if version < _FIRST_MINOR_WITHOUT_LOST_TABLES.get(major, 0):
        findings.append(
            Finding(
                "minor_version",
                Severity.WARNING,
                f"PostgreSQL {major}.{version % 10000} has a fault in ALTER PUBLICATION … ADD TABLE under load",
                "changes of a table added while a transaction writes to it may be missing from the log",
                "upgrade to the newest minor version, or add tables while nobody writes to them",
            )
        )
    if encoding == "SQL_ASCII":
        findings.append(
            Finding(
                "encoding",
                Severity.WARNING,
                "the database's encoding is SQL_ASCII: it does not say what its bytes mean",
                "text that is not UTF-8 stops its table",
                "convert the database to UTF8",
                code="RPL-3011",
            )
        )
    return findings


def _about_rights(endpoint: Endpoint, role: str, *, may_replicate: bool, may_create: bool) -> list[Finding]:
    findings = []
    who = quote_identifier(role)
    if not may_replicate:
        findings.append(
            Finding(
                "replication_right",
                Severity.ERROR,
                f"the role {role} lacks REPLICATION",
                "it can neither make a slot nor read the log",
                "grant it (on RDS: GRANT rds_replication, on Cloud SQL: the same ALTER ROLE by cloudsqlsuperuser)",
                fix=f"ALTER ROLE {who} REPLICATION;",
                code="RPL-3103",
            )
        )
    if not may_create and endpoint.config.publication is None:
        database = quote_identifier(endpoint.config.database)
        findings.append(
            Finding(
                "publication_right",
                Severity.WARNING,
                f"the role {role} may not create a publication",
                "the pipeline cannot start unless the publication is there",
                "let the owner create it and name it in the pipeline, or grant CREATE on the database",
                fix=f"GRANT CREATE ON DATABASE {database} TO {who};",
                code="RPL-3303",
            )
        )
    return findings


def _about_content(schema: TableSchema, facts: TableFacts) -> list[Finding]:
    findings = []
    if facts.generated:
        findings.append(
            Finding(
                "generated_columns",
                Severity.INFO,
                f"the generated columns {list(facts.generated)} of {schema.table} are left out",
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
                "rows are told apart by all their columns, which is slow, and its snapshot cannot be resumed",
                "add a primary key",
                table=schema.table,
            )
        )
    return findings


def _about_column(column: Column) -> ColumnAssessment:
    note = _note(column.source_type, column.type)
    support = Support.PARTIAL if note else Support.YES
    return ColumnAssessment(column.name, column.source_type, str(column.type), support, note)


def _note(source_type: str, kind: DataType) -> str:
    """What is changed on the way, in words."""
    if isinstance(kind, Array):
        inner = _note(source_type.removesuffix("[]"), kind.element)
        shape = "arrays of several dimensions or with other bounds follow outOfRange"
        return f"{shape}; elements: {inner}" if inner else shape
    if kind == STRING:
        bare = source_type.partition("(")[0]
        if bare in {"text", "character varying", "character", "name", '"char"'}:
            return ""
        return _LOSSY.get(source_type, _LOSSY.get(bare, "arrives as its text"))
    if str(kind).startswith("decimal"):
        return "NaN follows outOfRange"
    return _POLICY_TYPES.get(str(kind), "")
