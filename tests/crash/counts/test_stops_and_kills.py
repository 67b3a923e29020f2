"""Counts of a real PostgreSQL, a real MySQL and real topics into Delta equal the changes made, however often the replicator was stopped and killed."""

from __future__ import annotations

import random
import re
import signal
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.crash.counts.counted_changes import COPIED, TABLES, CountedChanges, Counts
from tests.crash.kills import kill, killed
from tests.depth import ALL_CASES
from tests.end_to_end.kafka.stream import MARKER, Stream, kafka_source
from tests.end_to_end.replicator import Replicator, Running, mysql_source, postgres_source
from tests.runtime.exposition.conftest import parsed
from tests.services.connect.debezium import postgres_connector
from tests.services.kafka.fixtures import PrivateConnect, PrivateKafka
from tests.services.mysql.server import MysqlDatabase
from tests.services.postgres.server import PostgresDatabase
from tests.services.processes import LOOPBACK, free_port

_POINTS = (
    "delta.commit.after",
    "engine.offset.before_save",
    "engine.ddl.after_apply",
    "engine.batch.applied",
    "state.put.between",
    "engine.offset.after_save",
    "engine.ddl.before_apply",
    "delta.commit.before",
)
_POINTS_OF_SLICES = (
    "delta.commit.after",
    "engine.slice.applied",
    "engine.offset.before_save",
    "delta.slice.written",
    "state.put.between",
    "engine.offset.after_save",
    "engine.slice.planned",
)
_ONE_PARTITION: Mapping[str, Any] = {
    "topic_creation_groups": "single",
    "topic_creation_single_include": ".*\\.entry",
    "topic_creation_single_partitions": 1,
    "topic_creation_single_replication_factor": 1,
}
"""Of the table without a key: elsewhere its records have no order."""
_ENDS = 20 if ALL_CASES else 5
_SETTINGS = {"batch": {"maxIntervalSeconds": 0.2}}


class Counted:
    """A replicator of counted changes, and what it shows of its counts.

    Args:
        source: Its source stage.
        tables: The tables that it selects, as the pipeline has them.
        folder: Its own.
    """

    def __init__(
        self, source: tuple[str, Mapping[str, Any]], tables: Sequence[Mapping[str, str]], folder: Path
    ) -> None:
        self.text_file = folder / "shop.prom"
        self.address = f"{LOOPBACK}:{free_port()}"
        metrics = {"textfile": str(self.text_file), "address": self.address}
        self.replicator = Replicator(folder, source, settings={**_SETTINGS, "tables": tables, "metrics": metrics})

    @classmethod
    def of(cls, database: PostgresDatabase | MysqlDatabase, folder: Path) -> Counted:
        """Reads the database itself."""
        is_postgres = isinstance(database, PostgresDatabase)
        source = postgres_source(database) if isinstance(database, PostgresDatabase) else mysql_source(database)
        where = {"schema": "public"} if is_postgres else {"database": database.name}
        return cls(source, [{**where, "table": table} for table in TABLES], folder)

    def streams(self, running: Running) -> Counts:
        """Wait until the run streams; what its metrics say then."""
        deadline = time.monotonic() + 300
        while True:
            assert time.monotonic() < deadline, running.log.read_text(errors="replace")[-3000:]
            try:
                with urllib.request.urlopen(f"http://{self.address}/metrics", timeout=30) as answer:
                    text = answer.read().decode()
            except (urllib.error.URLError, OSError):
                text = ""
            if re.search(r'replicator_phase\{phase="streaming",pipeline="shop"\} 1.0', text):
                return self.counts(text)
            assert running.process.poll() is None, running.log.read_text(errors="replace")[-3000:]
            time.sleep(0.1)

    def counts(self, text: str) -> Counts:
        """The counters of changes and of changes of structure, in the text form of metrics."""
        found: Counts = Counter()
        for (name, labels), value in parsed(text).items():
            if name in {"replicator_changes_total", "replicator_ddl_total"} and value:
                said = dict(labels)
                found[said["table"].rpartition(".")[2], said.get("op", "ddl")] += int(value)
        return found

    def of_status(self) -> Counts:
        """The counters of `status --json`, under the seed's names, without the rows of copies."""
        ended = self.replicator.start_command("status", str(self.replicator.pipeline)).wait()
        found: Counts = Counter()
        for table, metrics in ended.envelope["data"]["metrics"]["tables"].items():
            name = table.rpartition(".")[2]
            for key, value in metrics["counters"].items():
                if key.startswith(("target.dml.", "target.ddl")):
                    found[name, key.rpartition(".")[2]] += value
            found[name, "insert"] -= metrics["counters"].get("target.snapshot.rows", 0)
        return +found


def stop_and_kill(counted: Counted, changes: CountedChanges, points: Sequence[str], copied: Counts) -> None:
    """Run while rows change, and end by stops and kills, at `points` and at any time; no count goes back or is ahead.

    Args:
        counted: The replicator, which has not run.
        changes: Begun and ended here.
        points: Where every third end comes.
        copied: What is counted besides the changes.
    """
    chance, shown = random.Random(11), Counter[tuple[str, str]]()
    counted.streams(running := counted.replicator.start())
    with changes:
        for end in range(_ENDS):
            if end:
                point = points[end // 3 % len(points)] if end % 3 == 1 else ""
                failpoint = f"{point}=kill@{chance.randint(1, 4)}" if point else ""
                running = counted.replicator.start(REPLICATOR_FAILPOINTS=failpoint)
                if point:
                    killed(running, point, seconds=300)
                    continue
                if end % 6 != 5:  # else at any time of its beginning
                    now, made = counted.streams(running), changes.made + copied
                    assert not (shown - now), "a count went back"
                    assert not (now - made), "more is counted than was changed"
                    shown = now
            time.sleep(chance.uniform(0, 4))
            if end % 3 == 0:
                assert running.stop().status == 128 + signal.SIGTERM
            else:
                kill(running)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ["postgres", "mysql"])
def test_counts_equal_the_changes_made_over_stops_and_kills(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    database = request.getfixturevalue(f"{kind}_database")
    changes = CountedChanges(database, seed=5)
    counted = Counted.of(database, tmp_path)
    stop_and_kill(counted, changes, _POINTS, Counter())
    counted.replicator.until_current(seconds=900)
    assert counted.counts(counted.text_file.read_text()) == changes.made
    assert counted.of_status() == changes.made
    assert changes.made.keys() >= {("item", "ddl"), ("item", "delete"), ("entry", "update")}


@pytest.mark.timeout(1800)
def test_counts_of_topics_equal_the_changes_made_over_stops_and_kills(
    private_kafka: PrivateKafka, private_connect: PrivateConnect, postgres_database: PostgresDatabase, tmp_path: Path
) -> None:
    """PostgreSQL through Debezium and Kafka into Delta by slices, which executors read; a row that moves is two records there."""
    broker = private_kafka()
    stream = Stream(broker, private_connect(broker, exactly_once=True), postgres_database)
    changes = CountedChanges(postgres_database, seed=6, moves_are_two=True)
    stream.create_marker()
    tables = [f"public\\.{table}" for table in (*TABLES, MARKER)]
    stream.start(
        postgres_connector(
            postgres_database, stream.prefix, tables, topic_creation_default_partitions=3, **_ONE_PARTITION
        )
    )
    source = kafka_source(broker, stream.topics)
    counted = Counted(source, [{"schema": "public", "table": table} for table in TABLES], tmp_path)
    copied = Counter({(table, "insert"): COPIED for table in TABLES})  # the connector's snapshot is records, too
    structures = Counter(
        {("item", "ddl"): 10**6, ("entry", "ddl"): 10**6}
    )  # how many columns are new together is chance
    stop_and_kill(counted, changes, _POINTS_OF_SLICES, copied + structures)
    stream.finish()
    counted.replicator.until_current(seconds=900)
    made = changes.made + copied
    for found in (counted.counts(counted.text_file.read_text()), counted.of_status()):
        assert {key: number for key, number in found.items() if key[1] != "ddl"} == {
            key: number for key, number in made.items() if key[1] != "ddl"
        }
        assert found["item", "ddl"] >= 2, "created, and grown"
