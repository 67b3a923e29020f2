"""Databases under load and their copies through Debezium, Connect and Kafka end equal, whatever is restarted."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.comparison import assert_equal_copies
from tests.end_to_end.kafka.stream import MARKER, Stream, kafka_source
from tests.end_to_end.mysql.database import comparison as mysql_comparison
from tests.end_to_end.mysql.database import random_writers as mysql_shop
from tests.end_to_end.postgres import workload
from tests.end_to_end.replicator import Replicator, cluster_settings
from tests.services.connect.debezium import mysql_connector, postgres_connector
from tests.services.kafka.fixtures import PrivateConnect, PrivateKafka
from tests.services.mysql.server import MysqlDatabase
from tests.services.postgres.server import PostgresDatabase
from tests.services.spark.session import StandaloneCluster

# Records without a key go to any partition: of a table without one, order holds in a single partition only.
_JOURNAL_IN_ONE_PARTITION: Mapping[str, Any] = {
    "topic_creation_groups": "single",
    "topic_creation_single_include": ".*\\.journal",
    "topic_creation_single_partitions": 1,
    "topic_creation_single_replication_factor": 1,
}
_MYSQL = [table for table in mysql_shop.KEYED if table != "kinds"]


@pytest.mark.timeout(600)
def test_postgres_through_transactions_of_connect_ends_equal_in_delta(
    private_kafka: PrivateKafka,
    private_connect: PrivateConnect,
    postgres_database: PostgresDatabase,
    spark_cluster: StandaloneCluster,
    tmp_path: Path,
) -> None:
    """Also a table without a key, since nothing is repeated; a row that moves takes its large values along.

    Both workers of a cluster read the eight partitions of each topic, and the driver reads none.
    """
    broker = private_kafka()
    stream = Stream(broker, private_connect(broker, exactly_once=True), postgres_database)
    events = tmp_path / "events"
    events.mkdir()
    settings = {"batch": {"maxIntervalSeconds": 3}, "spark": with_event_log(cluster_settings(spark_cluster), events)}
    replicator = Replicator(tmp_path / "replicator", kafka_source(broker, stream.topics), settings=settings)
    with postgres_database.connect() as connection:
        workload.create(connection)
        connection.execute("ALTER TABLE document REPLICA IDENTITY FULL")
        stream.create_marker()
        tables = [*workload.TABLES, ("public", MARKER)]
        stream.start(
            postgres_connector(
                postgres_database,
                stream.prefix,
                [f"{schema}\\.{table}" for schema, table in tables],
                publish_via_partition_root=True,
                topic_creation_default_partitions=8,
                **_JOURNAL_IN_ONE_PARTITION,
            )
        )
        with workload.Writers(postgres_database, seed=5, pause=0.05) as writers:
            running = replicator.start()
            running.said("streaming")
            stream.disturb(random.Random(1), "worker killed", "broker restarted")
            writers.wait_for(100)
            stopped = running.stop()
        assert stopped.status in {0, 143}, stopped.messages
        stream.finish()
        replicator.until_current()
        assert assert_equal_copies(connection, replicator.lake, tables) > 1000
    tasks = tasks_of_executors(events)
    assert len(tasks) == 2
    assert min(tasks.values()) > tasks.total() / 5, tasks


def with_event_log(spark: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    """Let Spark note in `folder` which executor ran which task."""
    log = {"enabled": "true", "dir": folder.as_uri(), "rolling.enabled": "false", "compress": "false"}
    return {**spark, "conf": {**spark["conf"], **{f"spark.eventLog.{key}": value for key, value in log.items()}}}


def tasks_of_executors(folder: Path) -> Counter[str]:
    """Executor → how many tasks it ended, in all sessions together; "driver" would be one."""
    events = [json.loads(line) for log in folder.iterdir() for line in log.read_text().splitlines()]
    return Counter(e["Task Info"]["Executor ID"] for e in events if e["Event"] == "SparkListenerTaskEnd")


@pytest.mark.timeout(600)
def test_mysql_of_which_connect_repeats_changes_ends_equal(
    private_kafka: PrivateKafka,
    private_connect: PrivateConnect,
    mysql_database: MysqlDatabase,
    file_target_package: str,
    tmp_path: Path,
) -> None:
    """Killed workers write again what they had written; worker and broker are killed and restarted in turn."""
    broker = private_kafka()
    stream = Stream(broker, private_connect(broker), mysql_database)
    tables = [*_MYSQL, MARKER]
    replicator = Replicator(
        tmp_path,
        kafka_source(broker, stream.topics),
        ("file", {"path": str(tmp_path / "target")}),
        environment={"PYTHONPATH": file_target_package},
    )
    mysql_shop.create(mysql_database)
    # The connector's snapshot reads a FLOAT as the server prints it, with six digits.
    mysql_database.execute("ALTER TABLE meter MODIFY reading double")
    stream.create_marker()
    connector = mysql_connector(mysql_database, broker, stream.prefix, tables, bigint_unsigned_handling_mode="precise")
    stream.start(connector)
    with mysql_shop.Writers(mysql_database, 5, pause=0.05, tables=_MYSQL) as writers:
        running = replicator.start()
        running.said("streaming")
        stream.disturb(random.Random(2), "worker restarted", "broker killed", "worker killed")
        writers.wait_for(100)
        stopped = running.stop()
    assert stopped.status in {0, 143}, stopped.messages
    stream.finish()
    replicator.until_current()
    copy = mysql_comparison.in_file_target(tmp_path / "target", mysql_database)
    assert mysql_comparison.assert_equal_copies(mysql_database, copy, tables) > 1000
