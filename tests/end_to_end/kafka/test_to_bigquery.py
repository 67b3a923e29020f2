"""Records of topics arrive in BigQuery: by merge flush, which is the chain of seed 000, and by slices that executors read."""

from __future__ import annotations

import json
import random
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.control.reset import reset
from replicator_source_kafka import KafkaSource
from replicator_source_kafka.slices import range_reader
from replicator_target_bigquery import BigQueryTarget
from replicator_target_bigquery.load.uploads import Folder
from tests.crash.kafka.tables import TABLES, KafkaTables
from tests.crash.kill_points import OF_SLICES_IN_BIGQUERY
from tests.crash.kills import harms
from tests.crash.one_process import CopyInProcess, OneProcess
from tests.crash.three_runs import ThreeRuns
from tests.depth import some
from tests.end_to_end.kafka.stream import kafka_source
from tests.end_to_end.replicator import Replicator
from tests.runtime.engine.partitioned_shop import Host, run_pipeline
from tests.services.bigquery.emulators import PROJECT, Emulators, rows, staged_files, target_settings
from tests.services.kafka.broker import KafkaBroker
from tests.services.kafka.fixtures import MakeTopic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Orders = dict[int, str]
MERGING: Final = {
    "mode": "merge-flush",
    "upsertEnabled": True,
    "deleteEnabled": True,
    "kafkaKeyFieldName": "kafkaKey",
    "mergeRecordsThreshold": 500,
}


def changes(chance: random.Random, orders: Orders, number: int) -> Iterable[tuple[bytes, bytes | None]]:
    """Records of random upserts and deletes; `orders` becomes what they lead to."""
    for change in range(number):
        order = chance.randrange(200)
        key = json.dumps({"id": order}).encode()
        if order in orders and chance.random() < 0.3:
            del orders[order]
            yield key, None
        else:
            orders[order] = f"state {change} {chance.random()}"
            yield key, json.dumps({"id": order, "state": orders[order]}).encode()


@pytest.mark.timeout(600)
def test_every_upsert_and_tombstone_of_a_topic_is_merged(
    kafka: KafkaBroker, kafka_topic: MakeTopic, bigquery_emulators: Emulators, tmp_path: Path
) -> None:
    """The run is killed while it streams; the next ones add no row twice and lose none."""
    bigquery_emulators.gate.clear()
    bigquery_emulators.write_gate.clear()
    topic, dataset = kafka_topic(partitions=3, prefix="shop"), f"d{uuid.uuid4().hex[:12]}"
    source = ("kafka", {"bootstrapServers": kafka.bootstrap, "topics": [topic], "format": "upsert-json"})
    target = ("bigquery", target_settings(bigquery_emulators, dataset, **MERGING))
    replicator = Replicator(tmp_path, source, target)
    chance, orders = random.Random(16), Orders()
    kafka.produce(topic, changes(chance, orders, 1000))
    running = replicator.start()
    running.said("streaming")
    kafka.produce(topic, changes(chance, orders, 1000))
    running.kill()
    kafka.produce(topic, changes(chance, orders, 500))
    replicator.until_current()
    table = rows(bigquery_emulators, f"SELECT table_name FROM `{PROJECT}`.`{dataset}`.INFORMATION_SCHEMA.TABLES")
    (name,) = (str(found) for (found,) in table if not str(found).startswith("_"))
    selected = f"SELECT id, state, kafkaKey.id FROM `{PROJECT}`.`{dataset}`.`{name}`"
    found = [(int(str(a)), b, int(str(c))) for a, b, c in rows(bigquery_emulators, selected)]
    assert sorted(found) == sorted((order, state, order) for order, state in orders.items())
    kafka.produce(topic, changes(chance, orders, 100))
    replicator.until_current()
    assert sorted(int(str(r[0])) for r in rows(bigquery_emulators, selected)) == sorted(orders)
    assert replicator.start_command("reset", str(replicator.pipeline), "--yes").wait().status == 0
    kafka.produce(topic, changes(chance, orders, 100))
    replicator.until_current()  # from the earliest record on: before the position that the table had
    assert sorted(int(str(r[0])) for r in rows(bigquery_emulators, selected)) == sorted(orders)


KILLS: Final = (
    *sorted(OF_SLICES_IN_BIGQUERY),
    "bigquery.staging.loaded",
    "bigquery.commit.after",
    "engine.slice.applied",
)
"""Before anything is staged, with files in the bucket, with staged rows, between the commits of two tables, before the offset is saved."""


class Pair:
    """Tables with their changes in topics, one in three partitions, and a dataset; `source` of three runs."""

    def __init__(self, broker: KafkaBroker, emulators: Emulators, folder: Path) -> None:
        emulators.gate.clear()
        self._emulators, self._dataset = emulators, f"d{uuid.uuid4().hex[:12]}"
        self._chance = random.Random(5)
        self.tables = KafkaTables(broker)
        target = ("bigquery", target_settings(emulators, self._dataset, schemaChanges="rebuild"))
        self._replicator = Replicator(folder, kafka_source(broker, self.tables.topics), target)

    def change_rows(self) -> None:
        """Some changes of both tables."""
        self.tables.change_rows(self._chance)

    def change_structure(self) -> None:
        """A column is new, wider, renamed or dropped."""
        self.tables.change_structure()

    def document(self) -> Mapping[str, Any]:
        """The pipeline JSON."""
        return self._replicator.document()

    def differences(self) -> dict[str, tuple[int, int]]:
        """Table → how many rows the copy lacks, and has too many; empty when all are equal."""
        found = {}
        for table in TABLES:
            source = Counter(tuple(map(_text, row)) for row in self.tables.rows(table).elements())
            listed = ", ".join(f"`{name}`" for name in self.tables.columns(table))
            read = rows(self._emulators, f"SELECT {listed} FROM `{PROJECT}`.`{self._dataset}`.`{table}`")
            copy = Counter(tuple(map(_text, row)) for row in read)
            if source != copy:
                found[table] = (source - copy).total(), (copy - source).total()
        return found

    def staged(self) -> list[str]:
        """The files that are in the staging bucket."""
        found = staged_files(self._emulators)
        return [name for name in found if f"/{self._dataset}/" in name]


def _text(value: object) -> str | None:
    return None if value is None else str(value)


@pytest.fixture
def pair(kafka: KafkaBroker, bigquery_emulators: Emulators, tmp_path: Path) -> Pair:
    return Pair(kafka, bigquery_emulators, tmp_path / "pair")


@pytest.fixture
def process(tmp_path: Path) -> Iterator[OneProcess]:
    with OneProcess(tmp_path / "process") as made:
        yield made


@pytest.mark.timeout(600)
def test_partitions_are_read_and_staged_by_executors(
    pair: Pair, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver can neither read records nor write rows here: executors are processes of their own."""

    def refuse(*_: object) -> None:
        raise AssertionError("the driver does an executor's work")

    assert spark.sparkContext.defaultParallelism > 1
    for owner, name in ((range_reader, "stream_range"), (KafkaSource, "create_reader"), (Folder, "write")):
        monkeypatch.setattr(owner, name, refuse)
    document = {**pair.document(), "retries": {"maxDurationSeconds": 0}}
    for _ in range(2):
        run_pipeline(document, Host(BigQueryTarget, KafkaSource))
        assert pair.differences() == {}
        pair.change_rows()
        pair.change_structure()
    assert reset(build_pipeline(document, host=Host(BigQueryTarget, KafkaSource))) == 2  # type: ignore[arg-type]
    run_pipeline(document, Host(BigQueryTarget, KafkaSource))
    assert pair.differences() == {}


@pytest.mark.timeout(600)
def test_three_runs_after_a_kill_at_any_step_of_a_slice_are_equal(pair: Pair, process: OneProcess) -> None:
    """Each begins with a kill; rows and structure change between the runs."""
    copy = CopyInProcess(process, pair.document, pair.differences)
    for point in some(KILLS, 1, name="slices into bigquery"):
        pair.change_structure()
        pair.change_rows()
        process.kill_at(pair.document(), point)
        pair.change_rows()
        ThreeRuns(pair, [copy]).check()
        assert pair.staged() == [], "the killed run's files are deleted by the next slice"


@pytest.mark.timeout(600)
def test_without_the_position_in_a_tables_commit_a_killed_slice_is_applied_twice(
    pair: Pair, process: OneProcess
) -> None:
    """The twin of the kills between a commit and the offset."""
    process.run(pair.document())
    pair.change_rows()
    process.kill_at(pair.document(), "engine.slice.applied")
    process.run(pair.document(), without="progress")
    assert pair.differences()["note"][1] > 0
    harms.append("bigquery slice progress")
