"""A pipeline from topics into memory in this process, and its topics, named as Debezium names them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from replicator_runtime.assessment import PipelineAssessment, assess_pipeline
from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.control.control import carry_out_alone
from replicator_runtime.engine.control.reset import reset
from replicator_sdk import TableId
from replicator_sdk.testing.in_memory.target import MemoryStore, MemoryTarget
from replicator_source_kafka import KafkaSource
from replicator_state import ReplicatorDirectory
from tests.runtime.engine.partitioned_shop import Host, PartitionedShop, run_pipeline
from tests.services.kafka.broker import KafkaBroker


@contextmanager
def topics_of(broker: KafkaBroker, *tables: str, partitions: int = 1) -> Iterator[dict[str, str]]:
    """Table → its topic, `prefix.public.table`; the topics are deleted at the end of the block."""
    prefix = f"t{uuid.uuid4().hex[:10]}"
    made = {table: broker.create_topic(f"{prefix}.public.{table}", partitions) for table in tables}
    try:
        yield made
    finally:
        if left := sorted(set(made.values()) & set(broker.topics())):
            broker.delete_topics(*left)


class MemoryCopy:
    """Topics, a target in memory, and a pipeline between them that ends at the topics' ends.

    Attributes:
        source: The source's settings, to be edited between two runs.
        document: The pipeline JSON.
    """

    def __init__(self, folder: Path, broker: KafkaBroker, *, name: str = "shop", **settings: Any) -> None:
        self._folder, self._store = folder, str(folder / name)
        MemoryStore.forget(self._store)
        self.document = PartitionedShop(folder, 1).document("memory", {"store": self._store})
        self.document |= {"name": name, "retries": {"maxDurationSeconds": 0}}
        self.source: dict[str, Any] = {
            "bootstrapServers": broker.bootstrap,
            "metadataIntervalSeconds": 0.1,
            "kafka": {"fetch.max.wait.ms": 50},
            **settings,
        }
        self.document["stages"][0]["plugin"]["properties"] = self.source

    def run(self) -> None:
        """Read to the end."""
        run_pipeline(self.document, Host(MemoryTarget, KafkaSource))

    def ask(self, command: str, table: str) -> str:
        """`replicator table COMMAND`, without a run; the code of its error, empty when it went well."""
        requests = ReplicatorDirectory(str(self._folder / "state"), "default", self.document["name"]).requests()
        asked = requests.submit(f"table.{command}", {"tables": [table]})
        carry_out_alone(build_pipeline(self.document, host=Host(MemoryTarget, KafkaSource)))  # type: ignore[arg-type]
        outcome = requests.outcome(asked.request_id)
        assert outcome is not None
        return outcome.code

    def reset(self) -> None:
        """`replicator reset`."""
        reset(build_pipeline(self.document, host=Host(MemoryTarget, KafkaSource)))  # type: ignore[arg-type]

    def assess(self) -> PipelineAssessment:
        """What `replicator assess` finds now."""
        return assess_pipeline(build_pipeline(self.document, host=Host(MemoryTarget, KafkaSource)))  # type: ignore[arg-type]

    def ids(self, table: str, *, schema: str = "public", database: str = "shop") -> list[int]:
        """The ids of a table's rows."""
        return sorted(row["id"] for row in self.rows(TableId(database, table, schema)))

    def rows(self, table: TableId) -> list[dict[str, Any]]:
        """A table's rows."""
        return MemoryStore.of(self._store).rows(table)
