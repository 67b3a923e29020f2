"""A replicator of topics goes back to an earlier offset, by name and by time: the lake is as it was then, and later equal again."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.rewind.choice import Wanted
from replicator_runtime.engine.rewind.rewind import rewind
from replicator_runtime.engine.run_state.spark_handle import SparkHandle
from replicator_runtime.engine.worker import run
from replicator_sdk.errors import HistoryLostError
from replicator_sdk.testing.histories.values import difference
from replicator_source_kafka import KafkaSource
from replicator_state import ReplicatorDirectory
from replicator_target_delta import DeltaLakeTarget
from replicator_target_delta.location import table_path
from tests.plugins.sources.kafka.slices.test_distributed_log import TopicLog
from tests.runtime.engine.partitioned_shop import Host, PartitionedShop

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from replicator_sdk import TableId, TableSchema
    from tests.services.kafka.broker import KafkaBroker

Rows = dict["TableId", list[dict[str, Any]]]


class Lake:
    """A shop, its topics, and their copies in Delta."""

    def __init__(self, folder: Path, broker: KafkaBroker) -> None:
        self.shop, self.topics, self.path = PartitionedShop(folder, 3), TopicLog(broker), str(folder / "lake")
        keyed = [{"table": "customers"}, {"table": "stock"}]  # without a key only in one partition
        self.document = self.shop.document("delta", {"path": self.path}, tables=keyed)
        self.document["stages"][0]["plugin"]["properties"] = {
            "bootstrapServers": broker.bootstrap,
            "topicPattern": rf"{self.topics.name}\..*",
            "kafka": {"fetch.max.wait.ms": 50},
        }
        self.shop.log = self.topics  # type: ignore[assignment]
        self.pipeline = build_pipeline(self.document, host=Host(DeltaLakeTarget, KafkaSource))  # type: ignore[arg-type]
        self.offsets = ReplicatorDirectory(str(folder / "state"), "default", "shop").offsets()

    def replicate(self, steps: int = 10) -> None:
        """Some changes, and a run; source and copies are equal then."""
        self.shop.trade(steps)
        self.topics.flush()
        assert run(self.pipeline, until_current=True).reached_goal
        schemas, found = self.schemas, self.rows(self.schemas)
        assert [text for s in schemas if (text := difference(s, self.shop.rows(s.table), found[s.table]))] == []

    @property
    def schemas(self) -> list[TableSchema]:
        """The tables as they are now."""
        return [schema for schema in self.shop.schemas if schema.primary_key]

    def rows(self, schemas: Sequence[TableSchema]) -> Rows:
        """What the copies hold of these columns."""
        found: Rows = {}
        for schema in schemas:
            opened = QueryBuilder().register("t", DeltaTable(table_path(self.path, schema.table)))
            rows: list[dict[str, Any]] = pa.table(opened.execute("select * from t").read_all()).to_pylist()
            found[schema.table] = [{column.name: one[column.name] for column in schema.columns} for one in rows]
        return found

    def assert_as_then(self, schemas: Sequence[TableSchema], then: Rows) -> None:
        """The copies hold these rows."""
        now = self.rows(schemas)
        assert [text for s in schemas if (text := difference(s, then[s.table], now[s.table]))] == []


@pytest.fixture
def lake(kafka: KafkaBroker, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    monkeypatch.setattr(SparkHandle, "session", lambda self: spark)
    made = Lake(tmp_path, kafka)
    yield made
    made.topics.close()


@pytest.mark.timeout(600)
def test_topics_are_read_again_after_an_offset_or_a_time(lake: Lake) -> None:
    lake.replicate()
    lake.replicate()
    latest = lake.offsets.latest()
    assert latest is not None
    name, moment = f"offset.{latest.commit_timestamp:020d}", datetime.now(UTC)
    schemas = lake.schemas
    then = lake.rows(schemas)
    for wanted in (Wanted(name), Wanted(time=moment)):
        lake.shop.grow()
        lake.replicate()
        plan = rewind(lake.pipeline, wanted, lambda plan: None)
        assert plan is not None
        assert plan.choice.name == name
        assert any(one.back is not None for one in plan.tables)
        lake.assert_as_then(schemas, then)
        lake.replicate(0)
    lake.replicate()


@pytest.mark.timeout(600)
def test_records_that_retention_deleted_since_refuse_it(lake: Lake, kafka: KafkaBroker) -> None:
    lake.replicate()
    latest = lake.offsets.latest()
    assert latest is not None
    lake.replicate()
    schemas = lake.schemas
    now = lake.rows(schemas)
    topic = f"{lake.topics.name}.customers"
    kafka.delete_records(topic, kafka.ends(topic))
    with pytest.raises(HistoryLostError) as refused:
        rewind(lake.pipeline, Wanted(f"offset.{latest.commit_timestamp:020d}"), lambda plan: None)
    assert refused.value.code == "RPL-1275"
    lake.assert_as_then(schemas, now)
    lake.replicate()
