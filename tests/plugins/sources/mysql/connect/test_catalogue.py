"""What the catalogue returns is what the server does, on MySQL and on MariaDB."""

from __future__ import annotations

from replicator_sdk import TableId
from replicator_source_mysql.connect.catalogue import SYSTEM_DATABASES
from replicator_source_mysql.definition import ColumnDefinition, UniqueKey
from tests.plugins.sources.mysql.snapshot_reading import catalogue_of, definition_of
from tests.services.mysql.server import MysqlDatabase

_DEFAULTS = {
    "a int DEFAULT 5": ("5", False),
    "a int": (None, False),
    "a int DEFAULT NULL": (None, False),
    "a int DEFAULT -7": ("-7", False),
    "a varchar(20) DEFAULT 'it''s'": ("it's", False),
    "a varchar(20) DEFAULT 'NULL'": ("NULL", False),
    "a varchar(20) DEFAULT 'now()'": ("now()", False),
    "a varchar(20) DEFAULT 'back\\\\slash'": ("back\\slash", False),
    "a varchar(20) DEFAULT ''": ("", False),
    "a decimal(5,2) DEFAULT 1.5": ("1.50", False),
    "a bit(3) DEFAULT b'101'": ("b'101'", False),
    "a enum('x','y') DEFAULT 'y'": ("y", False),
    "a date DEFAULT '2020-02-29'": ("2020-02-29", False),
    "a varbinary(9) DEFAULT 0x4142": ("0x4142", False),
    "a datetime DEFAULT CURRENT_TIMESTAMP": (None, True),
    "a datetime(3) DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3)": (None, True),
    "a datetime NULL ON UPDATE CURRENT_TIMESTAMP": (None, False),
    "a char(36) DEFAULT (uuid())": (None, True),
    "a int AS (1 + 1) VIRTUAL": (None, False),
}


def test_constants_and_expressions_differ(mysql_and_mariadb: MysqlDatabase) -> None:
    """The two servers write defaults in different ways; a string that looks like a function stays a string."""
    found = {}
    for number, column in enumerate(_DEFAULTS):
        mysql_and_mariadb.execute(f"CREATE TABLE t{number} ({column})")
        only = definition_of(mysql_and_mariadb, f"t{number}").columns[0]
        found[column] = (only.default, only.has_expression_default)
    assert found == _DEFAULTS


def test_columns_carry_order_charset_nullability_and_marks(mysql_and_mariadb: MysqlDatabase) -> None:
    db = mysql_and_mariadb
    invisible = "e int INVISIBLE" if db.is_mariadb else "e int NULL INVISIBLE"
    db.execute(
        f"CREATE TABLE t (b varchar(9) CHARACTER SET latin1 NOT NULL, a bigint unsigned, c text, d blob, {invisible},"
        " f enum('x','Y''z') CHARACTER SET gbk, g int AS (a + 1) STORED) CHARACTER SET utf8mb4"
    )
    columns = {column.name: column for column in definition_of(db).columns}
    assert list(columns) == list("bacdefg")
    assert columns["b"] == ColumnDefinition("b", "varchar(9)", nullable=False, charset="latin1")
    assert columns["a"].type.endswith("unsigned")
    assert columns["a"].charset == ""
    assert (columns["c"].charset, columns["d"].charset) == ("utf8mb4", "")
    assert columns["e"].is_invisible
    assert not columns["a"].is_invisible
    assert (columns["f"].type, columns["f"].charset) == ("enum('x','Y''z')", "gbk")
    assert columns["g"].is_generated
    assert not columns["a"].is_generated
    assert definition_of(db).charset == "utf8mb4"


def test_keys_identify_rows_as_the_log_does(mysql_and_mariadb: MysqlDatabase) -> None:
    db = mysql_and_mariadb
    db.execute(
        "CREATE TABLE t (a int NOT NULL, b varchar(99) NOT NULL, c int, UNIQUE x (c), UNIQUE y (b), UNIQUE a (a, b))"
    )
    assert definition_of(db).identity == ("b",)
    assert UniqueKey("x", ("c",)) in definition_of(db).keys
    db.execute("ALTER TABLE t ADD PRIMARY KEY (b, a)")
    assert definition_of(db).identity == ("b", "a")


def test_a_key_of_an_expression_identifies_nothing(mysql_database: MysqlDatabase) -> None:
    mysql_database.execute("CREATE TABLE t (a int NOT NULL, b int NOT NULL, UNIQUE x ((a + 1)), UNIQUE y (b, (a * 2)))")
    assert definition_of(mysql_database).identity == ()


def test_a_key_the_server_made_by_itself_is_seen(mysql_database: MysqlDatabase) -> None:
    """Its column is in the binlog, whether the catalogue hides it or not."""
    with mysql_database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION sql_generate_invisible_primary_key = ON")
        cursor.execute("CREATE TABLE t (a int)")
    assert definition_of(mysql_database).identity == ("my_row_id",)


def test_all_tables_of_a_database_are_found_and_nothing_of_the_system(mysql_and_mariadb: MysqlDatabase) -> None:
    db = mysql_and_mariadb
    db.execute("CREATE TABLE `od``d` (a int)")
    db.execute("CREATE TABLE t (a int PRIMARY KEY)")
    db.execute("CREATE VIEW v AS SELECT * FROM t")
    with catalogue_of(db) as catalogue:
        found = catalogue.definitions([db.name, "mysql"])
        assert sorted(found) == [TableId(db.name, "od`d"), TableId(db.name, "t")]
        everything = catalogue.definitions()
        assert found.items() <= everything.items()
        assert not {table.database.lower() for table in everything} & SYSTEM_DATABASES
        assert catalogue.find(TableId(db.name, "v")) is None
        assert catalogue.definitions([]) == {}
