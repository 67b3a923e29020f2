"""Every finding comes with a statement that fixes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from replicator_sdk import TableId
from replicator_sdk.discovery.assessment import Finding, Severity, Support
from replicator_sdk.errors import NeedsUserError
from replicator_source_mysql import MySqlConfig
from replicator_source_mysql.assessment.assessor import MySqlTableAssessor, check_server, check_tables
from replicator_source_mysql.connect.grants import parse_grant
from tests.follows import follows
from tests.plugins.sources.mysql.snapshot_reading import definition_of, endpoint_of, schema_of
from tests.services.mysql.fixtures import PrivateMysql
from tests.services.mysql.programs import MARIADB_10_11, MYSQL_9, Release
from tests.services.mysql.server import MysqlDatabase


def server_findings(db: MysqlDatabase, server_id: int | None = None, **settings: Any) -> dict[str, Finding]:
    with MySqlTableAssessor(endpoint_of(db, **settings), server_id) as assessor:
        return {finding.name: finding for finding in assessor.assess().findings}


def table_findings(db: MysqlDatabase, table: str = "t", **settings: Any) -> dict[str, Finding]:
    with MySqlTableAssessor(endpoint_of(db, **settings)) as assessor:
        return {finding.name: finding for finding in assessor.assess_table(schema_of(db, table)).findings}


def refused(db: MysqlDatabase, *tables: str, **settings: Any) -> str:
    """The code with which the reader's check refuses server or tables; empty when it does not."""
    endpoint = endpoint_of(db, **settings)
    definitions = [definition_of(db, table) for table in tables]
    try:
        with endpoint.session() as connection:
            check_server(connection)
            check_tables(connection, [TableId(db.name, table) for table in tables], endpoint.config, definitions)
    except NeedsUserError as err:
        return err.code if err.hint else "no hint"
    return ""


def test_a_server_as_it_should_be_has_no_error(mysql_and_mariadb: MysqlDatabase) -> None:
    mysql_and_mariadb.execute("CREATE TABLE t (id int PRIMARY KEY)")
    assert not [f for f in server_findings(mysql_and_mariadb).values() if f.severity is not Severity.INFO]
    assert not table_findings(mysql_and_mariadb)
    assert refused(mysql_and_mariadb, "t") == ""


def test_a_server_that_cannot_be_reached_is_a_finding(mysql_and_mariadb: MysqlDatabase) -> None:
    assert server_findings(mysql_and_mariadb, password="wrong")["connection"].code == "RPL-3801"


# ------------------------------------------------------------ settings


@contextmanager
def private(start: PrivateMysql, release: Release, **options: Any) -> Iterator[MysqlDatabase]:
    server = start(release, **options)
    with server.database() as database:
        yield database


@pytest.mark.parametrize("release", [MYSQL_9, MARIADB_10_11], ids=lambda release: release.name)
def test_no_binlog_is_refused(release: Release, mysql_server: PrivateMysql) -> None:
    options = {"log_bin": None} if release.is_mariadb else {"log_bin": False}
    with private(mysql_server, release, gtid=False, **options) as db:
        assert server_findings(db)["log_bin"].severity is Severity.ERROR
        assert refused(db) == "RPL-3840"


@pytest.mark.parametrize("release", [MYSQL_9, MARIADB_10_11], ids=lambda release: release.name)
def test_settings_that_harm_are_found_and_fixed(release: Release, mysql_server: PrivateMysql) -> None:
    """Each fix is run as it is printed; afterwards the finding is gone."""
    options: dict[str, Any] = {
        "binlog_format": "MIXED", "binlog_row_image": "MINIMAL", "binlog_expire_logs_seconds": 3600,
        "binlog_ignore_db": "hidden",
    }  # fmt: skip
    if not release.is_mariadb:
        options |= {"binlog_row_value_options": "PARTIAL_JSON", "log_replica_updates": False}
    with private(mysql_server, release, gtid=False, **options) as db:
        found = server_findings(db, db.port)
        worst = {name for name, finding in found.items() if finding.severity is Severity.ERROR}
        assert worst == {"binlog_format", "server_id_in_use"}
        assert {"binlog_row_image", "binlog_retention", "binlog_filters"} < set(found)
        assert release.is_mariadb or {"binlog_row_value_options", "gtid_mode"} < set(found)
        assert refused(db) == "RPL-3841"
        db.execute("CREATE TABLE t (a int)")
        assert table_findings(db)["row_image_without_key"].severity is Severity.ERROR
        for name in ("binlog_format", "binlog_row_image", "binlog_retention", "binlog_row_value_options", "gtid_mode"):
            for statement in found[name].fix.split(";") if name in found else ():
                if statement.strip():
                    db.execute(statement)
        assert set(server_findings(db)) <= {"binlog_filters", "binlog_row_metadata", "log_replica_updates"}
        assert refused(db, "t") == ""
        db.execute("CREATE DATABASE hidden")
        db.execute("CREATE TABLE hidden.t (id int PRIMARY KEY)")
        with pytest.raises(NeedsUserError, match="RPL-3846"), endpoint_of(db).session() as connection:
            check_tables(connection, [TableId("hidden", "t")], endpoint_of(db).config)


# ------------------------------------------------------------ rights


@contextmanager
def account(db: MysqlDatabase) -> Iterator[str]:
    name = f"u{db.name[-10:]}"
    db.execute(f"CREATE USER {name} IDENTIFIED BY 'x1'")
    try:
        yield name
    finally:
        db.execute(f"DROP USER {name}")


@follows("RPL-3851")
def test_missing_rights_are_found_and_the_grants_printed_suffice(mysql_and_mariadb: MysqlDatabase) -> None:
    db = mysql_and_mariadb
    db.execute("CREATE TABLE t (a int)")
    with account(db) as user:
        as_user: dict[str, Any] = {"user": user, "password": "x1"}
        found = server_findings(db, **as_user)
        errors = [finding for finding in found.values() if finding.severity is Severity.ERROR]
        assert {finding.code for finding in errors} == {"RPL-3842"}
        assert len(errors) == 2
        for finding in errors:
            db.execute(finding.fix)
        assert not [f for f in server_findings(db, **as_user).values() if f.severity is Severity.ERROR]
        db.execute(f"GRANT INSERT ON t TO {user}")  # so that the table can be seen
        lacking = table_findings(db, **as_user)
        assert {lacking["select"].code, lacking["lock_tables"].code} == {"RPL-3851", "RPL-3852"}
        assert refused(db, "t", **as_user) == "RPL-3851"
        for name in ("select", "lock_tables"):
            db.execute(lacking[name].fix)
        assert set(table_findings(db, **as_user)) == {"no_key"}
        assert refused(db, "t", **as_user) == ""


def test_rights_of_a_role_and_of_a_pattern_count(mysql_and_mariadb: MysqlDatabase) -> None:
    db = mysql_and_mariadb
    db.execute("CREATE TABLE t (a int PRIMARY KEY)")
    role = f"r{db.name[-10:]}"
    watch = "BINLOG MONITOR" if db.is_mariadb else "REPLICATION CLIENT"
    db.execute(f"CREATE ROLE {role}")
    with account(db) as user:
        db.execute(f"GRANT REPLICATION SLAVE, {watch} ON *.* TO {role}")
        db.execute(f"GRANT SELECT ON `{db.name[:-4]}%`.* TO {role}")
        db.execute(f"GRANT {role} TO {user}")
        db.execute(f"SET DEFAULT ROLE {role} {'FOR' if db.is_mariadb else 'TO'} {user}")
        assert refused(db, "t", user=user, password="x1") == ""
    db.execute(f"DROP ROLE {role}")


def test_grants_are_read_as_the_server_writes_them() -> None:
    grant = parse_grant("GRANT SELECT (`a`, `b`), INSERT, LOCK TABLES ON `s\\_%`.`t``x` TO `u`@`%` WITH GRANT OPTION")
    assert grant is not None
    assert sorted(grant.privileges) == ["INSERT", "LOCK TABLES"]
    assert sorted(grant.partly) == ["SELECT"]
    assert grant.covers("INSERT", TableId("s_1", "t`x"))
    assert not grant.covers("INSERT", TableId("sx1", "t`x"))
    assert not grant.covers("SELECT", TableId("s_1", "t`x"))
    everything = parse_grant("GRANT ALL PRIVILEGES ON *.* TO `u`@`%` IDENTIFIED BY PASSWORD 'x'")
    assert everything is not None
    assert everything.covers("REPLICATION SLAVE", None)
    taken = parse_grant("REVOKE SELECT ON `secret`.* FROM `u`@`%`")
    assert taken is not None
    assert taken.is_taken
    assert parse_grant("GRANT `role`@`%` TO `u`@`%`") is None
    assert parse_grant("GRANT EXECUTE ON PROCEDURE `d`.`p` TO `u`@`%`") is None


# ------------------------------------------------------------ tables


def _deletes_in_log(db: MysqlDatabase, table: str) -> int:
    """How many row events delete from a table in the newest file, by the server's own listing of it."""
    status = "SHOW MASTER STATUS" if db.is_mariadb else "SHOW BINARY LOG STATUS"
    file, found, names = db.query(status)[0][0], 0, dict[str, str]()
    for _, _, kind, _, _, info in db.query("SHOW BINLOG EVENTS IN %s", file):
        words = info.split()
        if kind == "Table_map":
            names[words[1]] = words[2]
        found += kind.startswith("Delete_rows") and names[words[1]] == f"({db.name}.{table})"
    return found


def test_a_cascade_is_refused_exactly_where_the_log_leaves_it_out(mysql_and_mariadb: MysqlDatabase) -> None:
    """The server's own log is compared."""
    db = mysql_and_mariadb
    db.execute("FLUSH LOGS")
    db.execute("CREATE TABLE p (id int PRIMARY KEY)")
    db.execute("CREATE TABLE c (id int PRIMARY KEY, p int, FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE)")
    db.execute("CREATE TABLE plain (id int PRIMARY KEY, p int, FOREIGN KEY (p) REFERENCES p (id))")
    db.execute("INSERT INTO p VALUES (1)")
    db.execute("INSERT INTO c VALUES (1, 1)")
    db.execute("DELETE FROM p")
    assert db.query("SELECT COUNT(*) FROM c") == [(0,)]
    is_logged = _deletes_in_log(db, "c") == 1
    assert _deletes_in_log(db, "p") == 1
    assert ("foreign_key_cascade" not in table_findings(db, "c")) == is_logged
    assert refused(db, "c", "p", "plain") == ("" if is_logged else "RPL-3843")
    assert refused(db, "c", foreign_key_cascades="ignore") == ""
    assert refused(db, "p", "plain") == ""


def test_the_setting_that_leaves_cascades_out_of_the_log_is_seen(mysql_server: PrivateMysql) -> None:
    """MySQL 9.6 and later can be configured to let InnoDB follow foreign keys by itself, as it did before."""
    with private(mysql_server, MYSQL_9, innodb_native_foreign_keys=True) as db:
        test_a_cascade_is_refused_exactly_where_the_log_leaves_it_out(db)
        assert refused(db, "c") == "RPL-3843"


def test_cascades_are_seen_by_an_account_that_may_only_read(mariadb_database: MysqlDatabase) -> None:
    """MariaDB hides REFERENTIAL_CONSTRAINTS from it; overlooking a cascade would lose changes."""
    db = mariadb_database
    db.execute("CREATE TABLE p (id int PRIMARY KEY, u int UNIQUE)")
    actions = ["ON UPDATE CASCADE", "ON DELETE SET NULL", "ON DELETE RESTRICT ON UPDATE SET NULL"]
    for number, action in enumerate(actions):
        db.execute(
            f"CREATE TABLE c{number} (id int PRIMARY KEY, p int, CONSTRAINT f{number} FOREIGN KEY (p) REFERENCES p (u) {action})"
        )
    with account(db) as user:
        db.execute(f"GRANT SELECT ON {db.name}.* TO {user}")
        for number in range(len(actions)):
            finding = table_findings(db, f"c{number}", user=user, password="x1")["foreign_key_cascade"]
            assert finding.severity is Severity.ERROR
            db.execute(finding.fix)
            assert "foreign_key_cascade" not in table_findings(db, f"c{number}", user=user, password="x1")


@pytest.mark.parametrize("engine", ["BLACKHOLE", "MyISAM", "MEMORY"])
def test_engines_are_judged(engine: str, mysql_database: MysqlDatabase) -> None:
    db = mysql_database
    db.execute(f"CREATE TABLE t (id int PRIMARY KEY) ENGINE = {engine}")
    name = "engine" if engine == "BLACKHOLE" else "non_transactional_engine"
    finding = table_findings(db)[name]
    assert refused(db, "t") == finding.code == ("RPL-3844" if engine == "BLACKHOLE" else "")
    db.execute(finding.fix)
    assert not table_findings(db)


def test_system_versioned_tables_are_refused(mariadb_database: MysqlDatabase) -> None:
    db = mariadb_database
    db.execute("CREATE TABLE t (id int PRIMARY KEY) WITH SYSTEM VERSIONING")
    finding = table_findings(db)["system_versioned"]
    assert refused(db, "t") == finding.code == "RPL-3845"
    db.execute(finding.fix)
    assert refused(db, "t") == ""


def test_a_table_without_a_key_is_named_and_can_be_fixed(mysql_and_mariadb: MysqlDatabase) -> None:
    db = mysql_and_mariadb
    db.execute("CREATE TABLE t (a int, g int AS (a + 1))")
    found = table_findings(db)
    assert (found["no_key"].severity, found["generated_columns"].severity) == (Severity.WARNING, Severity.INFO)
    db.execute(found["no_key"].fix)
    assert "no_key" not in table_findings(db)


def test_columns_say_what_is_changed_on_the_way(mysql_and_mariadb: MysqlDatabase) -> None:
    db = mysql_and_mariadb
    db.execute(
        "CREATE TABLE t (id int PRIMARY KEY, a bigint unsigned, b decimal(40,2), c decimal(38,2), d datetime, e time,"
        " f bit(9), g enum('x'), h point, i varchar(9))"
    )
    with MySqlTableAssessor(endpoint_of(db, zero_dates="fail")) as assessor:
        columns = {c.name: c for c in assessor.assess_table(schema_of(db)).columns}
    whole = {name for name, column in columns.items() if column.support is Support.YES}
    assert whole == {"id", "c", "i"}
    assert columns["a"].target_type == "decimal(20,0)"
    assert columns["b"].target_type == "string"
    assert columns["d"].note == "a zero or partial date stops the table"


def test_many_tables_are_checked_with_few_queries(mysql_and_mariadb: MysqlDatabase) -> None:
    """One statement for each table would make the start of a large pipeline slow."""
    db = mysql_and_mariadb
    for number in range(40):
        db.execute(f"CREATE TABLE t{number} (id int PRIMARY KEY)")
    tables = [TableId(db.name, f"t{number}") for number in range(40)]
    with endpoint_of(db).session() as connection:
        before = _questions(connection)
        check_tables(connection, tables, MySqlConfig(host="x", user="x"))
        assert _questions(connection) - before < 25


def _questions(connection: Any) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SHOW SESSION STATUS LIKE 'Questions'")
        return int(cursor.fetchone()[1])
