"""A table without a key in three partitions: its removals may be read before its inserts, and runs are killed in between."""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from replicator_sdk.event import DMLOperation
from replicator_sdk.schema import TableId
from replicator_sdk.testing.histories.reference import RowChange
from replicator_sdk.testing.histories.spread_history import Window, spread_history, spread_schema
from tests.crash.kills import killed
from tests.end_to_end.kafka.stream import kafka_source
from tests.end_to_end.replicator import Replicator
from tests.plugins.sources.kafka.harness.connect_json import envelope
from tests.services.bigquery.emulators import PROJECT, Emulators, rows, target_settings
from tests.services.kafka.broker import KafkaBroker
from tests.services.kafka.fixtures import MakeTopic

SCHEMA = spread_schema(TableId("shop", "notes", "public"))
_OPERATIONS = {DMLOperation.INSERT: "c", DMLOperation.UPDATE: "u", DMLOperation.DELETE: "d"}
_WINDOWS, _KILLED = 6, (1, 2)
Found = Counter[tuple[Any, ...]]


def _send(broker: KafkaBroker, topic: str, changes: Sequence[RowChange], chance: random.Random) -> None:
    """Write the changes as a connector does, to any of three partitions: records without a key have no other."""
    for change in changes:
        before = None if change.before is None else dict(change.before)
        record = envelope(SCHEMA, _OPERATIONS[change.operation], before, dict(change.row) or None)
        broker.produce(topic, [(None, record)], partition=chance.randrange(3))


def _windows(chance: random.Random) -> list[Window]:
    """Six windows of one history; the last one has all that is left."""
    windows = list(spread_history(chance, SCHEMA, changes=60, most=4))
    rest = windows[_WINDOWS - 1 :]
    return [*windows[: _WINDOWS - 1], Window([change for one in rest for change in one.changes], rest[-1].rows)]


def _check(broker: KafkaBroker, topic: str, replicator: Replicator, found: Callable[[], Found], point: str) -> None:
    """Each window is followed by a run; the second and the third by one that is killed. Rows are as the records say."""
    chance = random.Random(9)
    for number, window in enumerate(_windows(chance)):
        _send(broker, topic, window.changes, chance)
        if number in _KILLED:
            killed(replicator.start("--until-current", REPLICATOR_FAILPOINTS=f"{point}=kill"), point)
            continue
        replicator.until_current()
        assert found() == Counter(tuple(row.values()) for row in window.rows), f"run {number + 1}"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("point", ["delta.commit.before", "delta.commit.after"])
def test_rows_in_delta_are_those_of_the_source_after_kills_around_a_commit(
    kafka: KafkaBroker, kafka_topic: MakeTopic, tmp_path: Path, point: str
) -> None:
    topic = kafka_topic(partitions=3, prefix="shop")
    replicator = Replicator(tmp_path, kafka_source(kafka, topic, distributed=False))

    def found() -> Found:
        table = deltalake.DeltaTable(str(replicator.lake / "public" / "notes"))
        reader = deltalake.QueryBuilder().register("t", table).execute("select name, number from t")
        return Counter((row["name"], row["number"]) for row in pa.table(reader.read_all()).to_pylist())

    _check(kafka, topic, replicator, found, point)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("point", ["bigquery.commit.before", "bigquery.commit.after"])
def test_rows_in_bigquery_are_those_of_the_source_after_kills_around_a_commit(
    kafka: KafkaBroker, kafka_topic: MakeTopic, bigquery_emulators: Emulators, tmp_path: Path, point: str
) -> None:
    bigquery_emulators.gate.clear()
    topic, dataset = kafka_topic(partitions=3, prefix="shop"), f"d{uuid.uuid4().hex[:12]}"
    target = ("bigquery", target_settings(bigquery_emulators, dataset))
    replicator = Replicator(tmp_path, kafka_source(kafka, topic), target)

    def found() -> Found:
        read = rows(bigquery_emulators, f"SELECT name, number FROM `{PROJECT}`.`{dataset}`.notes")
        return Counter((name, int(str(number))) for name, number in read)

    _check(kafka, topic, replicator, found, point)
