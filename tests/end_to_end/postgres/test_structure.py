"""Tables whose structure, partitions or publication change while no replicator runs end equal in Delta."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.comparison import assert_equal_copies
from tests.end_to_end.replicator import Replicator, postgres_source
from tests.follows import follows
from tests.services.postgres.server import PostgresDatabase

TABLES = [("public", name) for name in ("other_case", "swap", "chain", "parts", "prices", "texts", "outside")]
CREATE = """
CREATE TABLE other_case (id int PRIMARY KEY, a int, b int);
CREATE TABLE swap (id int PRIMARY KEY, a text, b text);
CREATE TABLE chain (id int PRIMARY KEY, a int, b int, c int);
CREATE TABLE parts (id int, day int, v text, PRIMARY KEY (id, day)) PARTITION BY LIST (day);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1);
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES IN (2);
CREATE TABLE prices (id int PRIMARY KEY, cents int);
CREATE TABLE texts (id int PRIMARY KEY, v varchar(20));
CREATE TABLE outside (id int PRIMARY KEY, v text);
INSERT INTO other_case SELECT i, i, -i FROM generate_series(1, 9) i;
INSERT INTO swap SELECT i, 'a' || i, 'b' || i FROM generate_series(1, 9) i;
INSERT INTO chain SELECT i, i, 10 * i, 100 * i FROM generate_series(1, 9) i;
INSERT INTO parts SELECT i, 1 + i % 2, 'v' || i FROM generate_series(1, 9) i;
INSERT INTO prices SELECT i, i FROM generate_series(1, 9) i;
INSERT INTO texts SELECT i, 'v' || i FROM generate_series(1, 9) i;
INSERT INTO outside SELECT i, 'v' || i FROM generate_series(1, 9) i;
CREATE PUBLICATION p FOR TABLE other_case, swap, chain, parts, prices, texts, outside WITH (publish_via_partition_root = true)
"""
CHANGE = """
INSERT INTO other_case VALUES (20, 20, -20);
ALTER TABLE other_case RENAME b TO c; ALTER TABLE other_case RENAME a TO "B";
INSERT INTO other_case VALUES (21, 21, -21);
ALTER TABLE swap RENAME a TO x; ALTER TABLE swap RENAME b TO a; ALTER TABLE swap RENAME x TO b;
UPDATE swap SET a = a || '!' WHERE id < 4;
ALTER TABLE chain RENAME c TO d; ALTER TABLE chain RENAME b TO c; ALTER TABLE chain RENAME a TO b;
DELETE FROM chain WHERE id = 5;
DROP TABLE parts_1;
ALTER TABLE prices ALTER cents TYPE bigint USING cents * 100;
INSERT INTO prices VALUES (30, 3000);
ALTER TABLE texts ALTER v TYPE text USING upper(v);
ALTER PUBLICATION p DROP TABLE outside;
INSERT INTO outside VALUES (40, 'not in the log');
ALTER PUBLICATION p ADD TABLE outside
"""


@pytest.mark.timeout(900)
def test_what_changed_between_two_runs_is_in_the_copies_after_three_more(
    postgres_oldest_and_newest: PostgresDatabase, tmp_path: Path
) -> None:
    """Renamed columns keep their values; what the log does not hold is copied again, once."""
    db = postgres_oldest_and_newest
    replicator = Replicator(tmp_path, postgres_source(db, publication="p"))
    with db.connect() as connection:
        for statement in CREATE.split(";"):
            connection.execute(statement.encode())
        replicator.until_current()
        assert_equal_copies(connection, replicator.lake, TABLES)
        for statement in CHANGE.split(";"):
            connection.execute(statement.encode())
        ended = replicator.until_current()
        assert ended.messages.count("RPL-3606") in range(3, 9), "four tables, some by a change of structure"
        for n in range(2):
            assert_equal_copies(connection, replicator.lake, TABLES)
            for _, table in TABLES:
                connection.execute(f"ALTER TABLE {table} ADD more_{n} int".encode())
                values = f"{100 + n}, 2" if table == "parts" else f"{100 + n}"
                connection.execute(f"INSERT INTO {table} VALUES ({values})".encode())
                connection.execute(f"DELETE FROM {table} WHERE id = {6 + n}".encode())
            ended = replicator.until_current()
            assert "RPL-3606" not in ended.messages
        assert_equal_copies(connection, replicator.lake, TABLES)


@follows("RPL-3209")
@pytest.mark.timeout(900)
def test_a_table_removed_from_the_publication_stops_alone_and_is_copied_when_it_is_added_again(
    postgres_database: PostgresDatabase, tmp_path: Path
) -> None:
    db = postgres_database
    replicator = Replicator(tmp_path, postgres_source(db, publication="p"))
    with db.connect() as connection:
        for statement in CREATE.split(";"):
            connection.execute(statement.encode())
        replicator.until_current()
        connection.execute("ALTER PUBLICATION p DROP TABLE outside")
        hint = ""
        for n in range(2):
            connection.execute(f"INSERT INTO outside VALUES ({50 + n}); INSERT INTO prices VALUES ({50 + n})".encode())
            ended = replicator.run("--until-current")
            assert ended.error["code"] == "RPL-3209", ended.messages
            assert_equal_copies(connection, replicator.lake, [table for table in TABLES if table[1] != "outside"])
            hint = ended.error["hint"]
        connection.execute(hint.split(";")[0].encode())
        assert f"then `replicator table retry {replicator.pipeline} public.outside`" in hint
        retried = replicator.start_command("table", "retry", str(replicator.pipeline), "public.outside").wait()
        assert retried.status == 0, retried.messages
        for n in range(3):
            replicator.until_current()
            assert_equal_copies(connection, replicator.lake, TABLES)
            connection.execute(f"ALTER TABLE outside ADD more_{n} int DEFAULT 5; UPDATE outside SET v = '{n}'".encode())
