"""One table that is dropped, may not be read any more or is refused stops only itself: the others go on, with the offset."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from tests.end_to_end.conftest import MakeMysqlPair
from tests.end_to_end.mysql_pair import MysqlPair
from tests.end_to_end.test_mysql_bad_input import account
from tests.services.mysql import MysqlDatabase

WHOLE = ("item", "note")


def of(pair: MysqlPair, *tables: str) -> MysqlPair:
    """The pair with only these tables compared."""
    return MysqlPair(pair.database, pair.replicator, tables)


def selecting_all(pair: MysqlPair) -> MysqlPair:
    """The pair whose pipeline selects every table of the database."""
    return pair.with_settings(tables=[{"database": pair.database.name, "table": "*"}])


def failing(pair: MysqlPair) -> Mapping[str, str]:
    """The tables that a run shows as failing, with their codes; the run ends with an error."""
    ended = pair.replicator.run("--until-current", seconds=60)
    assert ended.status != 0, ended.messages
    return dict(re.findall(r"\.(\w+): FAILING (RPL-\d{4})", ended.messages))


def test_a_named_table_that_is_dropped_stops_only_itself(both_pair: MysqlPair) -> None:
    both_pair.assert_nothing_lost()
    both_pair.change()
    both_pair.execute("DROP TABLE item")
    note = of(both_pair, "note")
    for number in range(3):
        assert failing(both_pair) == {"item": "RPL-2001"}
        note.assert_equal()
        both_pair.execute(
            f"INSERT INTO note (text) VALUES ('{number}')", f"ALTER TABLE note ADD COLUMN n{number} int DEFAULT 3"
        )
    both_pair.execute("CREATE TABLE item (id int PRIMARY KEY, other date)", "INSERT INTO item VALUES (1, '2024-01-01')")
    for number in range(3):
        both_pair.assert_nothing_lost()
        both_pair.execute(
            f"INSERT INTO item (id) VALUES (1{number})", f"ALTER TABLE item ADD COLUMN m{number} int DEFAULT 4"
        )
    both_pair.assert_nothing_lost()


@pytest.mark.parametrize("is_altered", [False, True])
@pytest.mark.parametrize("by_pattern", [False, True])
def test_a_table_whose_select_is_revoked_goes_on_by_the_log(
    both_pair: MysqlPair, by_pattern: bool, is_altered: bool
) -> None:
    database = both_pair.database
    right = f"SELECT ON {database.name}"
    monitor = "BINLOG MONITOR, SLAVE MONITOR" if database.is_mariadb else "REPLICATION CLIENT"
    grants = (
        f"REPLICATION SLAVE, {monitor} ON *.*",
        f"LOCK TABLES ON {database.name}.*",
        f"{right}.item",
        f"{right}.note",
    )
    chosen = selecting_all(both_pair) if by_pattern else both_pair
    with account(both_pair, *grants) as settings:
        pair = chosen.with_source(**settings)
        user = f"'{settings['user']}'@'%%'"
        pair.assert_nothing_lost()
        database.server.execute(f"REVOKE SELECT ON {database.name}.item FROM {user}")
        for number in range(3):
            both_pair.change()
            if is_altered:
                both_pair.execute(f"ALTER TABLE item ADD COLUMN a{number} int DEFAULT 7")
            both_pair.execute(f"ALTER TABLE note ADD COLUMN n{number} int DEFAULT 3")
            pair.assert_nothing_lost()
        database.server.execute(f"GRANT {right}.item TO {user}")
        for number in range(3):
            pair.assert_nothing_lost()
            both_pair.change()
            both_pair.execute(f"ALTER TABLE item ADD COLUMN b{number} int DEFAULT 7")
        pair.assert_nothing_lost()


@pytest.mark.parametrize(
    ("create", "code", "repair"),
    [
        ("CREATE TABLE late (id int PRIMARY KEY) ENGINE MRG_MyISAM", "RPL-3844", "ALTER TABLE late ENGINE InnoDB"),
        ("CREATE TABLE late (id int PRIMARY KEY, secret int)", "RPL-2001", ""),
    ],
)
def test_a_new_table_that_is_refused_stops_only_itself(
    both_pair: MysqlPair, create: str, code: str, repair: str
) -> None:
    database = both_pair.database
    monitor = "BINLOG MONITOR, SLAVE MONITOR" if database.is_mariadb else "REPLICATION CLIENT"
    right = f"SELECT ON {database.name}"
    grants = (
        f"REPLICATION SLAVE, {monitor} ON *.*",
        f"LOCK TABLES ON {database.name}.*",
        f"{right}.item",
        f"{right}.note",
    )
    named = both_pair.with_settings(tables=[{"database": database.name, "table": t} for t in (*WHOLE, "late")])
    chosen = selecting_all(both_pair) if repair else named
    with account(both_pair, *grants) as settings:
        pair = chosen.with_source(**settings)
        user = f"'{settings['user']}'@'%%'"
        selecting_all(both_pair).with_source(**settings).assert_nothing_lost()
        both_pair.execute(create)
        database.server.execute(f"GRANT {'SELECT' if repair else 'SELECT (id)'} ON {database.name}.late TO {user}")
        for number in range(3):
            if not repair:
                both_pair.execute(f"INSERT INTO late (id) VALUES ({number})")
            both_pair.change()
            both_pair.execute(f"ALTER TABLE item ADD COLUMN n{number} int DEFAULT 3")
            assert failing(pair) == {"late": code}
            pair.assert_equal()
        if repair:
            both_pair.execute(repair)
        else:
            database.server.execute(f"GRANT {right}.late TO {user}")
        whole = of(pair, *WHOLE, "late")
        for number in range(3):
            whole.assert_nothing_lost()
            both_pair.change()
            both_pair.execute(
                f"INSERT INTO late (id) VALUES (1{number})", f"ALTER TABLE late ADD COLUMN n{number} int DEFAULT 3"
            )
        whole.assert_nothing_lost()


def test_a_table_that_gets_a_refused_structure_stops_only_itself(both_pair: MysqlPair) -> None:
    """MariaDB: system versioning. MySQL: rows of one session that are logged as text. The advice works."""
    both_pair.assert_nothing_lost()
    both_pair.change()
    if both_pair.database.is_mariadb:
        both_pair.execute("ALTER TABLE item ADD SYSTEM VERSIONING")
    else:
        both_pair.execute("SET SESSION binlog_format = STATEMENT", "UPDATE item SET name = 'by statement'")
    note = of(both_pair, "note")
    for number in range(3):
        both_pair.change()
        both_pair.execute(f"ALTER TABLE note ADD COLUMN n{number} int DEFAULT 3")
        assert failing(both_pair).keys() == {"item"}
        note.assert_equal()
    if both_pair.database.is_mariadb:
        both_pair.execute("ALTER TABLE item DROP SYSTEM VERSIONING")
        both_pair.change()
        assert failing(both_pair).keys() == {"item"}, "its changes in between are not in the log as rows of its own"
    database = both_pair.database.name
    both_pair.with_settings(tables=[{"database": database, "table": "note"}]).replicator.until_current()
    for number in range(3):
        both_pair.assert_nothing_lost()
        both_pair.change()
        both_pair.execute(f"ALTER TABLE item ADD COLUMN m{number} int DEFAULT 4")
    both_pair.assert_nothing_lost()


@pytest.mark.parametrize("pattern", ["item", "it*"])
def test_system_versioning_of_the_only_table_is_the_reason_shown(
    mariadb_database: MysqlDatabase, make_mysql: MakeMysqlPair, pattern: str
) -> None:
    pair = make_mysql(mariadb_database)
    pair = of(pair.with_settings(tables=[{"database": mariadb_database.name, "table": pattern}]), "item")
    pair.assert_nothing_lost()
    pair.execute("ALTER TABLE item ADD SYSTEM VERSIONING")
    for _ in range(3):
        pair.execute("DELETE FROM item ORDER BY id LIMIT 1")
        ended = pair.replicator.run("--until-current", seconds=60)
        assert ended.error["code"] in {"RPL-3790", "RPL-3845"}, ended.messages
        assert "versioning" in ended.error["message"] or "versioned" in ended.error["message"]
