"""A pipeline from topics into Delta in this process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.control.reset import reset
from replicator_source_kafka import KafkaSource
from replicator_target_delta import DeltaLakeTarget
from tests.plugins.sources.kafka.harness.source_runs import orders
from tests.plugins.targets.delta.lake import Lake
from tests.runtime.engine.partitioned_shop import Host, PartitionedShop, run_pipeline
from tests.services.kafka.broker import KafkaBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class DeltaCopy:
    """Topics, a Delta folder, and a pipeline between them that ends at the topics' ends.

    Attributes:
        lake: The folder.
        source: The source's settings, to be edited between two runs.
    """

    def __init__(self, folder: Path, spark: SparkSession, broker: KafkaBroker, **settings: Any) -> None:
        self.lake = Lake(folder / "lake", spark)
        self._document = PartitionedShop(folder, 1).document("delta", {"path": self.lake.config.path})
        self.source: dict[str, Any] = {
            "bootstrapServers": broker.bootstrap,
            "metadataIntervalSeconds": 0.1,
            "onNewPartitions": "read",
            "kafka": {"fetch.max.wait.ms": 50},
            **settings,
        }
        self._host = Host(DeltaLakeTarget, KafkaSource)
        self._document["stages"][0]["plugin"]["properties"] = self.source

    def run(self) -> None:
        """Read to the end."""
        run_pipeline({**self._document, "retries": {"maxDurationSeconds": 0}}, self._host)

    def reset(self) -> None:
        """`replicator reset`; the next run empties the tables."""
        reset(build_pipeline(self._document, host=self._host))  # type: ignore[arg-type]

    def notes(self, table: str = "orders") -> list[tuple[int, str]]:
        """Id and note of every row."""
        return sorted((row["id"], row["note"]) for row in self.lake.rows(orders(table).table))

    def ids(self, table: str) -> list[int]:
        """The ids of a table's rows."""
        return sorted(row["id"] for row in self.lake.rows(orders(table).table))
