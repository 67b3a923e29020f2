"""A Postgres under concurrent writers and its Delta copy end equal: snapshot, log and schema changes, in real processes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.end_to_end.comparison import assert_equal_copies
from tests.end_to_end.postgres import workload
from tests.end_to_end.replicator import Replicator, cluster_settings, postgres_source
from tests.services.postgres.programs import OLDEST
from tests.services.postgres.server import PostgresDatabase
from tests.services.spark.session import StandaloneCluster


@pytest.mark.timeout(600)
@pytest.mark.parametrize("postgres_database", [OLDEST], indirect=True)
def test_a_random_history_under_concurrent_writers_ends_equal_on_a_cluster_of_two_workers(
    postgres_database: PostgresDatabase, spark_cluster: StandaloneCluster, tmp_path: Path
) -> None:
    """Writers never pause while the first run takes the snapshot, follows the log and meets six schema changes.

    Only `spark.master` and sizes differ from a pipeline on one machine, which is what `crash/test_random_times.py` kills
    while it replicates the newest server.
    """
    settings = {"spark": cluster_settings(spark_cluster)}
    replicator = Replicator(tmp_path, postgres_source(postgres_database), settings=settings)
    with postgres_database.connect() as connection:
        workload.create(connection)
        with workload.Writers(postgres_database, seed=13) as writers:
            running = replicator.start()
            running.said("streaming")
            for change in workload.STRUCTURE_CHANGES:
                workload.change_structure(connection, change)
                time.sleep(0.5)
            writers.wait_for(100)
            stopped = running.stop()
        assert stopped.status in {0, 143}, stopped.messages
        replicator.until_current()
        assert assert_equal_copies(connection, replicator.lake, workload.TABLES) > 1000
