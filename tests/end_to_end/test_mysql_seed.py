"""The worked examples of seed 001 on the real servers."""

from __future__ import annotations

from collections import Counter

from tests.end_to_end.conftest import MakeMysqlPair
from tests.end_to_end.mysql_comparison import in_cellar
from tests.end_to_end.mysql_seed import EXPECTED, SeedExamples
from tests.services import mysql_client
from tests.services.mysql import MysqlDatabase


def test_the_seeds_examples_end_with_the_sources_rows(
    mysql_and_mariadb: MysqlDatabase, make_mysql: MakeMysqlPair
) -> None:
    """With and without a primary key, tx123 and tx456, and what the seed's own queries would lose, all in one batch.

    The same in Delta is a part of `test_mysql_to_delta.py`.
    """
    database, seed = mysql_and_mariadb, SeedExamples(mysql_and_mariadb)
    pair = make_mysql(database, *seed.tables)
    seed.create()
    pair.replicator.until_current()
    seed.run()
    pair.replicator.until_current()
    for table, rows in EXPECTED.items():
        assert Counter(mysql_client.rows(database, f"SELECT * FROM {table}")) == Counter(rows)
    seed.assert_rows(in_cellar(pair.replicator.folder / "cellar", database))
    pair.assert_equal()


def test_the_seeds_database_and_tables_are_made_while_the_pipeline_runs(
    mysql_and_mariadb: MysqlDatabase, make_mysql: MakeMysqlPair
) -> None:
    """As the seed tells it: first a pipeline of a database, then its tables and rows. New tables join by themselves."""
    database, seed = mysql_and_mariadb, SeedExamples(mysql_and_mariadb)
    database.execute("CREATE TABLE before_all (id int PRIMARY KEY)")
    pair = make_mysql(database, *seed.tables).with_settings(
        tables=[{"database": database.name, "table": "*"}], newTablesIntervalSeconds=0.5
    )
    running = pair.replicator.start()
    running.said("streaming", 60)
    seed.create()
    seed.run()
    assert running.stop().status in {0, 143}
    pair.assert_nothing_lost()
