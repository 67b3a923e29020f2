"""The worked examples of docs/seeds.md#001-replicator on real servers."""

from __future__ import annotations

from collections import Counter

from tests.end_to_end.mysql.conftest import MakeMysqlPipeline
from tests.end_to_end.mysql.database.comparison import in_file_target
from tests.end_to_end.mysql.database.worked_examples import EXPECTED, SeedExamples
from tests.services.mysql import client as mysql_client
from tests.services.mysql.server import MysqlDatabase


def test_the_seeds_examples_end_with_the_sources_rows(
    mysql_and_mariadb: MysqlDatabase, make_mysql: MakeMysqlPipeline
) -> None:
    """With and without a primary key, tx123 and tx456, and what the seed's own queries would lose, all in one batch.

    The same in Delta is a part of `test_mysql_to_delta.py`.
    """
    database, seed = mysql_and_mariadb, SeedExamples(mysql_and_mariadb)
    pipeline = make_mysql(database, *seed.tables)
    seed.create()
    pipeline.replicator.until_current()
    seed.run()
    pipeline.replicator.until_current()
    for table, rows in EXPECTED.items():
        assert Counter(mysql_client.rows(database, f"SELECT * FROM {table}")) == Counter(rows)
    seed.assert_rows(in_file_target(pipeline.replicator.folder / "target", database))
    pipeline.assert_equal()


def test_the_seeds_database_and_tables_are_created_while_the_pipeline_runs(
    mysql_and_mariadb: MysqlDatabase, make_mysql: MakeMysqlPipeline
) -> None:
    """As in the seed: first a pipeline of a database, then its tables and rows. New tables join by themselves."""
    database, seed = mysql_and_mariadb, SeedExamples(mysql_and_mariadb)
    database.execute("CREATE TABLE before_all (id int PRIMARY KEY)")
    pipeline = make_mysql(database, *seed.tables).with_settings(
        tables=[{"database": database.name, "table": "*"}], newTablesIntervalSeconds=0.5
    )
    running = pipeline.replicator.start()
    running.said("streaming")
    seed.create()
    seed.run()
    assert running.stop().status in {0, 143}
    pipeline.assert_nothing_lost()
