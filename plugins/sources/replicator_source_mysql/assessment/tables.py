"""Whether a table can be replicated: its engine, its key, who else changes its rows, and whether it may be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from replicator_sdk.discovery.assessment import Finding, Severity
from replicator_source_mysql.assessment.server_facts import ServerFacts
from replicator_source_mysql.assessment.table_facts import TableFacts
from replicator_source_mysql.connect.connection import quote_identifier
from replicator_source_mysql.definition import TableDefinition
from replicator_source_mysql.snapshots.chunk_plan import qualified

CASCADES, ENGINE, VERSIONED, FILTERED, IMAGE, NO_GRANT, NO_LOCK = (
    "RPL-3843", "RPL-3844", "RPL-3845", "RPL-3846", "RPL-3847", "RPL-3851", "RPL-3852",
)  # fmt: skip

_WITHOUT_ROW_LOG = frozenset(
    {"BLACKHOLE", "FEDERATED", "FEDERATEDX", "CONNECT", "SPIDER", "SPHINX", "OQGRAPH", "S3", "SEQUENCE"}
    | {"PERFORMANCE_SCHEMA", "MRG_MYISAM", "NDBCLUSTER", "COLUMNSTORE", "MROONGA"}
)
"""Their rows are elsewhere, or change without an event for each row of this table."""
_TRANSACTIONAL = frozenset({"INNODB", "ROCKSDB", "TOKUDB"})
_BYTES_PER_SECOND = 10 << 20
"""What a snapshot is expected to reach, with care."""


def table_findings(
    facts: TableFacts, definition: TableDefinition | None, server: ServerFacts, *, ignores_cascades: bool
) -> list[Finding]:
    """Everything about one table; `definition` None skips what needs its columns."""
    found = [*_about_engine(facts), *_about_cascades(facts, server, ignored=ignores_cascades)]
    found += [*_about_log(facts, server), *_about_rights(facts, server)]
    if definition is not None:
        found += [*_about_key(facts, definition, server), *_about_columns(facts, definition, server)]
    return found


def _about_engine(facts: TableFacts) -> list[Finding]:
    table, found = facts.table, []
    if facts.engine.upper() in _WITHOUT_ROW_LOG or not facts.engine:
        found.append(
            Finding(
                "engine",
                Severity.ERROR,
                f"{table} has the engine {facts.engine or '(none: it cannot be opened)'}",
                "its rows are not here, or change without being logged",
                "replicate the tables that hold its rows, or give it an engine that stores rows",
                fix=f"ALTER TABLE {qualified(table)} ENGINE = InnoDB;",
                table=table,
                code=ENGINE,
            )
        )
    elif facts.engine.upper() not in _TRANSACTIONAL:
        found.append(
            Finding(
                "non_transactional_engine",
                Severity.WARNING,
                f"{table} has the engine {facts.engine}, which has no transactions",
                "a statement that fails half-way leaves its first rows changed, here and in the log alike",
                "give it the engine InnoDB",
                fix=f"ALTER TABLE {qualified(table)} ENGINE = InnoDB;",
                table=table,
            )
        )
    if facts.is_versioned:
        found.append(
            Finding(
                "system_versioned",
                Severity.ERROR,
                f"{table} is system-versioned",
                "its history would arrive as rows of their own",
                "replicate a table without versions",
                fix=f"ALTER TABLE {qualified(table)} DROP SYSTEM VERSIONING;",
                table=table,
                code=VERSIONED,
            )
        )
    return found


def _about_cascades(facts: TableFacts, server: ServerFacts, *, ignored: bool) -> list[Finding]:
    if server.logs_cascades:
        return []
    suggestion = (
        'let a trigger or the application do what the foreign key does, or set "foreignKeyCascades" to "ignore" when its'
        " parents' keys are never deleted or changed"
    )
    if not server.server.is_mariadb:
        suggestion += "; MySQL 9.6 and later log such changes"
    return [
        Finding(
            "foreign_key_cascade",
            Severity.WARNING if ignored else Severity.ERROR,
            f"the foreign key {key.name} of {facts.table} changes its rows with those of {key.parent}"
            f" ({', '.join(key.rules)})",
            "the server leaves such changes out of its binlog, so the copy would keep the old rows",
            suggestion,
            fix=f"ALTER TABLE {qualified(facts.table)} DROP FOREIGN KEY {quote_identifier(key.name)};",
            table=facts.table,
            code=CASCADES,
        )
        for key in facts.cascades
    ]


def _about_log(facts: TableFacts, server: ServerFacts) -> list[Finding]:
    found = []
    if server.hides(facts.table.database):
        found.append(
            Finding(
                "binlog_filter",
                Severity.ERROR,
                f"binlog_do_db or binlog_ignore_db keeps {facts.table.database} out of the binlog",
                "its changes cannot be seen",
                "change the option file and restart the server",
                table=facts.table,
                code=FILTERED,
            )
        )
    kept, needed = server.retention_seconds, facts.size / _BYTES_PER_SECOND * 2
    if kept is not None and needed > kept:
        found.append(
            Finding(
                "snapshot_retention",
                Severity.WARNING,
                f"the snapshot of {facts.table} may take {needed / 3600:.1f} hours; the binlog is kept for {kept / 3600:.1f}",
                "what changed meanwhile could be gone from the log, and the snapshot would be in vain",
                "keep the binlog for longer",
                fix=f"SET GLOBAL binlog_expire_logs_seconds = {int(needed * 2)};",
                table=facts.table,
            )
        )
    return found


def _about_rights(facts: TableFacts, server: ServerFacts) -> list[Finding]:
    if server.grants.has("SELECT", facts.table):
        return []
    return [
        Finding(
            "select",
            Severity.ERROR,
            f"the account {server.grants.account} may not read {facts.table}",
            "the snapshot fails, and columns it may not read are not seen at all",
            "grant it",
            fix=f"GRANT SELECT ON {qualified(facts.table)} TO {server.grants.account};",
            table=facts.table,
            code=NO_GRANT,
        )
    ]


def _about_key(facts: TableFacts, definition: TableDefinition, server: ServerFacts) -> list[Finding]:
    if definition.identity:
        return []
    table, has_view = facts.table, facts.engine.upper() in _TRANSACTIONAL
    waits = (
        "writers wait for a moment" if has_view else "writers wait until it is done, because the engine shows no past"
    )
    found = [
        Finding(
            "no_key",
            Severity.WARNING,
            f"{table} has neither a primary key nor a unique key without NULL",
            f"rows are identified by all their columns, which is slow; its snapshot is read by one connection: {waits}",
            "add a primary key",
            fix=f"ALTER TABLE {qualified(table)} ADD COLUMN id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY;",
            table=table,
        )
    ]
    if not server.settings.get("binlog_row_image", "FULL").upper().startswith("FULL"):
        found.append(
            Finding(
                "row_image_without_key",
                Severity.ERROR,
                f"{table} has no key and binlog_row_image is {server.settings['binlog_row_image']}",
                "which row was changed is not known",
                "set FULL, or add a primary key",
                fix="SET GLOBAL binlog_row_image = 'FULL';",
                table=table,
                code=IMAGE,
            )
        )
    if not server.grants.has("LOCK TABLES", table):
        database = quote_identifier(table.database)
        found.append(
            Finding(
                "lock_tables",
                Severity.ERROR,
                f"the account {server.grants.account} lacks LOCK TABLES on {table.database}",
                "a table without a key needs a moment's lock for its snapshot",
                "grant it, or add a primary key",
                fix=f"GRANT LOCK TABLES ON {database}.* TO {server.grants.account};",
                table=table,
                code=NO_LOCK,
            )
        )
    return found


def _about_columns(facts: TableFacts, definition: TableDefinition, server: ServerFacts) -> list[Finding]:
    generated = [column.name for column in definition.columns if column.is_generated]
    is_full = server.settings.get("binlog_row_image", "FULL").upper() == "FULL"
    if generated and not (server.server.logs_generated_columns and (is_full or not server.server.is_mariadb)):
        return [*_about_columns_of(facts, definition, ()), _not_logged(facts, generated)]
    return _about_columns_of(facts, definition, generated)


def _not_logged(facts: TableFacts, generated: Sequence[str]) -> Finding:
    return Finding(
        "generated_columns_not_logged",
        Severity.WARNING,
        f"the server leaves the generated columns {', '.join(generated)} of {facts.table} out of the updates in its log",
        "the table stops at its first update, since their new values are unknown",
        "leave them out by the table's `columns`, and compute them where the table is read",
        table=facts.table,
        code="RPL-3716",
    )


def _about_columns_of(facts: TableFacts, definition: TableDefinition, generated: Sequence[str]) -> list[Finding]:
    marks: Mapping[str, Sequence[str]] = {
        "generated": generated,
        "invisible": [column.name for column in definition.columns if column.is_invisible],
    }
    return [
        Finding(
            f"{mark}_columns",
            Severity.INFO,
            f"the {mark} columns {names} of {facts.table} are replicated as values",
            "the copy has them as ordinary columns",
            "leave them out under the table's `columns` where they are not wanted",
            table=facts.table,
        )
        for mark, names in marks.items()
        if names
    ]
