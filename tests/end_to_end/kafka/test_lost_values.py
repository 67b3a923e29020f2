"""Topics without what Debezium and compaction leave out: deletes with tombstones only, missing large values."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from replicator_sdk.errors import ReplicatorError
from replicator_sdk.schema import TableId
from tests.end_to_end.kafka.stream import MARKER, Stream
from tests.plugins.sources.kafka.harness.delta_copy import DeltaCopy
from tests.services.connect.debezium import postgres_connector
from tests.services.kafka.fixtures import PrivateConnect, PrivateKafka
from tests.services.postgres.server import PostgresDatabase

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COMPACTED: Mapping[str, Any] = {
    "topic_creation_groups": "compacted",
    "topic_creation_compacted_include": ".*\\.item",
    "topic_creation_compacted_cleanup_policy": "compact",
    "topic_creation_compacted_segment_ms": 100,
    "topic_creation_compacted_min_cleanable_dirty_ratio": 0.01,
    "topic_creation_compacted_replication_factor": 1,
    "topic_creation_compacted_partitions": 1,
}


@pytest.mark.timeout(600)
def test_compacted_deletes_arrive_and_a_moved_row_without_its_large_value_stops_its_table_only(
    private_kafka: PrivateKafka,
    private_connect: PrivateConnect,
    postgres_database: PostgresDatabase,
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    broker = private_kafka()
    stream = Stream(broker, private_connect(broker), postgres_database)
    database = postgres_database
    database.execute("CREATE TABLE item (id int PRIMARY KEY, note text)")
    database.execute("CREATE TABLE document (id int PRIMARY KEY, name text, body text)")
    database.execute("ALTER TABLE document ALTER body SET STORAGE EXTERNAL")
    database.execute("INSERT INTO item SELECT n, 'n' || n FROM generate_series(1, 6) n")
    database.execute("INSERT INTO document VALUES (1, 'a', repeat('x', 9000)), (2, 'b', repeat('y', 9000))")
    stream.create_marker()
    tables = ["public.item", "public.document", f"public.{MARKER}"]
    stream.start(postgres_connector(database, stream.prefix, tables, topic_creation_default_partitions=1, **_COMPACTED))
    copy = DeltaCopy(tmp_path, spark, broker, topicPattern=stream.topics)
    copy.run()
    item, document = (TableId(database.name, name, "public") for name in ("item", "document"))
    assert {row["id"] for row in copy.lake.rows(item)} == {1, 2, 3, 4, 5, 6}

    database.execute("DELETE FROM item WHERE id <= 3")
    database.execute("UPDATE document SET id = 10 WHERE id = 1")
    deadline = time.monotonic() + 300
    while not _is_compacted(stream):
        assert time.monotonic() < deadline, "the broker has not compacted the topic"
        database.execute("UPDATE item SET note = 'again' WHERE id = 6")
        time.sleep(0.5)
    stream.finish()
    for _ in range(3):
        with pytest.raises(ReplicatorError, match="RPL-5405"):
            copy.run()
        assert {row["id"]: row["note"] for row in copy.lake.rows(item)} == {4: "n4", 5: "n5", 6: "again"}
        assert {row["id"]: len(row["body"]) for row in copy.lake.rows(document)} == {1: 9000, 2: 9000}


def _is_compacted(stream: Stream) -> bool:
    """Whether only the tombstones are left of the deletes."""
    records = stream.broker.records(f"{stream.prefix}.public.item")
    deletes = sum(r.value is not None and b'"op":"d"' in r.value for r in records)
    return deletes == 0 and sum(r.value is None for r in records) == 3
