"""Records of a topic arrive in BigQuery by merge flush: the chain of seed 000, from real partitions to merged rows."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

from tests.end_to_end.replicator import Replicator
from tests.services.bigquery.emulators import PROJECT, Emulators, rows, target_settings
from tests.services.kafka.broker import KafkaBroker
from tests.services.kafka.fixtures import MakeTopic

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
