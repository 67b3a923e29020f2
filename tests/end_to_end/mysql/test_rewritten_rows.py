"""Changes of structure that also change rows, without a row event: rows are copied again and end equal."""

from __future__ import annotations

from tests.end_to_end.mysql.conftest import MakeMysqlPipeline
from tests.end_to_end.mysql.database.pipeline import MysqlPipeline
from tests.services.mysql.server import MysqlDatabase

_PARTS = "(id int PRIMARY KEY, n int) PARTITION BY RANGE (id) (PARTITION low VALUES LESS THAN (5), PARTITION top VALUES LESS THAN MAXVALUE)"
CHANGES: dict[str, tuple[str, str, str]] = {
    "to_int": ("(id int PRIMARY KEY, v varchar(9))", "(1, '12x'), (2, 'x')", "MODIFY v int"),
    "rounded": ("(id int PRIMARY KEY, v decimal(10,4))", "(1, 1.2355)", "MODIFY v decimal(10,2)"),
    "cut": ("(id int PRIMARY KEY, v varchar(40))", "(1, 'long enough')", "MODIFY v varchar(4)"),
    "blanks": ("(id int PRIMARY KEY, v varchar(10))", "(1, 'ab  ')", "MODIFY v char(10)"),
    "zeros": ("(id int PRIMARY KEY, v varbinary(4))", "(1, 'a')", "MODIFY v binary(6)"),
    "clamped": ("(id int PRIMARY KEY, v bigint)", "(1, 5000), (2, -1)", "MODIFY v tinyint unsigned"),
    "day": ("(id int PRIMARY KEY, v datetime(6))", "(1, '2024-02-29 23:59:59.999999')", "MODIFY v datetime"),
    "zone": (
        "(id int PRIMARY KEY, v timestamp(3) NULL)",
        "(1, '2024-02-29 23:59:59.125')",
        "MODIFY v datetime(3)",
    ),
    "members": ("(id int PRIMARY KEY, v enum('a', 'b'))", "(1, 'a'), (2, 'b')", "MODIFY v enum('b', 'c')"),
    "filled": ("(id int PRIMARY KEY, v int)", "(1, NULL)", "MODIFY v int NOT NULL"),
    "lossy": ("(id int PRIMARY KEY, v varchar(20)) CHARSET utf8mb4", "(1, 'é☂')", "CONVERT TO CHARACTER SET latin1"),
    "wider": ("(id int PRIMARY KEY, v varchar(20)) CHARSET latin1", "(1, 'é')", "CONVERT TO CHARACTER SET utf8mb4"),
    "bytes": (
        "(id int PRIMARY KEY, v varchar(9) CHARSET latin1, g int AS (length(v)) STORED)",
        "(1, 'é', DEFAULT)",
        "MODIFY v varchar(9) CHARSET utf8mb4",
    ),
    "formula": (
        "(id int PRIMARY KEY, v int, g int AS (v + 1) STORED)", "(1, 1, DEFAULT)", "MODIFY g int AS (v * 5) STORED",
    ),
    "formulas": (
        "(id int PRIMARY KEY, v int, g int AS (v + 1) STORED, h int AS (g * 2) STORED)",
        "(1, 1, DEFAULT, DEFAULT)",
        "MODIFY g int AS (v + 7) STORED",
    ),
    "chosen": ("(id int PRIMARY KEY, v varchar(9), g int AS (length(v)) STORED)", "(1, '12.50', DEFAULT)", "MODIFY v int"),
    "drawn": ("(id int PRIMARY KEY)", "(1), (2)", "ADD COLUMN u varchar(36) DEFAULT (uuid())"),
    "now": ("(id int PRIMARY KEY)", "(1), (2)", "ADD COLUMN t datetime(6) DEFAULT now(6), ADD u timestamp DEFAULT now()"),
    "numbered": ("(id int PRIMARY KEY, v int)", "(0, 1), (7, 2)", "MODIFY id int AUTO_INCREMENT"),
    "counted": ("(v int)", "(5), (5)", "ADD COLUMN id int AUTO_INCREMENT UNIQUE"),
    "emptied": (_PARTS, "(1, 1), (9, 9)", "TRUNCATE PARTITION low"),
    "dropped": (_PARTS, "(1, 1), (9, 9)", "DROP PARTITION low"),
    "exchanged": (_PARTS, "(1, 1), (9, 9)", "EXCHANGE PARTITION low WITH TABLE partner"),
    "split": (
        _PARTS, "(1, 1), (9, 9)", "REORGANIZE PARTITION top INTO (PARTITION a VALUES LESS THAN (9), PARTITION b VALUES LESS THAN MAXVALUE)",
    ),
    "repaired": ("(id int PRIMARY KEY, v int) ENGINE MyISAM", "(1, 1), (2, 2)", ""),
}  # fmt: skip


def test_rows_that_a_change_of_structure_rewrites_are_copied_again(
    mysql_and_mariadb: MysqlDatabase, make_mysql: MakeMysqlPipeline
) -> None:
    names = [*CHANGES, "partner"]
    pipeline = make_mysql(mysql_and_mariadb, *names)
    name = mysql_and_mariadb.name
    chosen = [{"database": name, "table": t, **({"columns": ["id", "g"]} if t == "chosen" else {})} for t in names]
    pipeline = pipeline.with_settings(tables=chosen)
    pipeline.execute("CREATE TABLE partner (id int PRIMARY KEY, n int)", "INSERT INTO partner VALUES (2, 2), (3, 3)")
    for table, (columns, rows, _) in CHANGES.items():
        pipeline.execute(
            "SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO'",
            f"CREATE TABLE {table} {columns}",
            f"INSERT INTO {table} VALUES {rows}",
        )
    whole = MysqlPipeline(pipeline.database, pipeline.replicator, [t for t in names if t != "chosen"])
    for statements in range(3):
        whole.assert_nothing_lost()
        if statements == 0:
            for table, (_, _, usual) in CHANGES.items():
                refuses_uuid = table == "drawn" and not mysql_and_mariadb.is_mariadb
                change = "ADD COLUMN u date DEFAULT (curdate())" if refuses_uuid else usual
                statement = f"ALTER TABLE {table} {change}" if change else f"REPAIR TABLE {table}"
                pipeline.execute("SET SESSION sql_mode = ''", "SET SESSION time_zone = '+05:00'", statement)
        for table in CHANGES:
            pipeline.execute(
                "SET SESSION sql_mode = ''", f"ALTER TABLE {table} ADD COLUMN more{statements} int DEFAULT 3"
            )
            key = "v" if table == "counted" else "id"
            pipeline.execute("SET SESSION sql_mode = ''", f"INSERT INTO {table} ({key}) VALUES ({20 + statements})")
    whole.assert_nothing_lost()
    copied = whole.replicator.folder / "target"
    assert copied.exists()
    assert not chosen_differs(pipeline), "a generated column sees a column that is not selected"


def chosen_differs(pipeline: MysqlPipeline) -> bool:
    """Whether the copied columns of `chosen` differ from the source's."""
    from tests.end_to_end.mysql.database.comparison import in_file_target
    from tests.services.mysql.client import rows

    copy = in_file_target(pipeline.replicator.folder / "target", pipeline.database)("chosen", ["id", "g"])
    return sorted(copy) != sorted(map(tuple, rows(pipeline.database, "SELECT id, g FROM chosen")))
