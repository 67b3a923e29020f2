"""A process killed while it replicates Kafka's topics, structure and rows changing, ends equal once it is left alone.

The target needs no Spark. Each kill's recovery is the next kill's beginning, so a chain costs one run a kill.
"""

from __future__ import annotations

import pickle
import random
import shutil
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.crash.conftest import ENTRY, kill, killed
from tests.crash.kafka_shop import TABLES, KafkaShop, Row
from tests.crash.kills import harms
from tests.end_to_end.kafka.stream import kafka_source
from tests.end_to_end.replicator import Replicator
from tests.services.kafka.broker import KafkaBroker

_PLACES = (
    "engine.batch.gathered",
    "engine.table.after_apply",
    "engine.batch.applied",
    "engine.offset.before_save",
    "engine.offset.after_save",
)


@dataclass(frozen=True)
class KafkaPair:
    """A shop in Kafka and its replicator into the cellar."""

    shop: KafkaShop
    replicator: Replicator

    def kill_at(self, point: str) -> None:
        """A run that dies at `point`."""
        killed(self.replicator.start("--until-current", REPLICATOR_FAILPOINTS=f"{point}=kill"), point)

    def differences(self) -> dict[str, tuple[int, int]]:
        """Table → how many rows the copy lacks, and has too many; empty when all are equal."""
        found = {}
        for table in TABLES:
            shop, copy = self.shop.rows(table), self._copy(table)
            if shop != copy:
                found[table] = (shop - copy).total(), (copy - shop).total()
        return found

    def _copy(self, table: str) -> Counter[Row]:
        path = self.replicator.folder / "cellar"
        for name, kept in (pickle.loads(path.read_bytes()) if path.exists() else {}).items():
            if (name.schema, name.table) == ("public", table):
                places = [kept.schema.names.index(c) for c in self.shop.columns(table) if c in kept.schema]
                return Counter({tuple(row[i] for i in places): count for row, count in kept.rows.items()})
        return Counter()

    def assert_nothing_lost(self) -> None:
        """A run ends equal."""
        self.replicator.until_current(seconds=120)
        assert self.differences() == {}

    def twin(self, broken: str) -> KafkaPair:
        """A copy of what a kill left, to go on from without a part of the recovery."""
        folder = self.replicator.folder.with_name(f"without {broken}")
        shutil.copytree(self.replicator.folder, folder)
        target = ("cellar", {"path": str(folder / "cellar")})
        return replace(
            self, replicator=replace(self.replicator, folder=folder, target=target, command=(*ENTRY, broken))
        )


@pytest.fixture
def pair(kafka: KafkaBroker, tmp_path: Path, cellar_package: str) -> KafkaPair:
    folder = tmp_path / "pair"
    shop = KafkaShop(kafka)
    replicator = Replicator(
        folder,
        kafka_source(kafka, shop.topics),
        ("cellar", {"path": str(folder / "cellar")}),
        {"retries": {"maxDurationSeconds": 20, "delaySeconds": 0.2}, "batch": {"maxIntervalSeconds": 0.1}},
        environment={"PYTHONPATH": cellar_package},
    )
    return KafkaPair(shop, replicator)


def test_columns_that_came_while_nobody_read_are_not_lost(pair: KafkaPair) -> None:
    pair.assert_nothing_lost()
    pair.shop.restructure(0)
    pair.assert_nothing_lost()


def test_kills_around_commits_and_offsets(pair: KafkaPair) -> None:
    """The places where a source decides what comes again; the engine's others are the business of the tests with SQLite."""
    chance = random.Random(2)
    pair.assert_nothing_lost()
    for number, point in enumerate(_PLACES):
        pair.shop.change(chance)
        pair.shop.restructure(number)
        pair.kill_at(point)
    pair.assert_nothing_lost()


def test_kills_in_changes_of_structure(pair: KafkaPair) -> None:
    """Each is told again by the records, under the number it had."""
    pair.assert_nothing_lost()
    for number, point in enumerate(("engine.ddl.before_apply", "engine.ddl.after_apply", "engine.ddl.after_apply")):
        pair.shop.restructure(number)
        pair.kill_at(point)
    pair.assert_nothing_lost()


def test_kills_at_random_times_while_structure_and_rows_change(pair: KafkaPair) -> None:
    chance = random.Random(3)
    with pair.shop.trade(random.Random(4)):
        for _ in range(6):
            running = pair.replicator.start()
            time.sleep(chance.uniform(0.8, 2.5))
            kill(running)
    pair.assert_nothing_lost()


def test_where_the_offset_is_saved_before_the_data_a_kill_loses_rows(pair: KafkaPair) -> None:
    """The twin of every kill between the two."""
    pair.assert_nothing_lost()
    pair.shop.change(random.Random(5))
    other = pair.twin("order")
    for each in (pair, other):
        each.kill_at("engine.batch.gathered")
    other.replicator.until_current()
    assert other.differences()["note"][0] > 0
    harms.append("order")
    pair.assert_nothing_lost()
