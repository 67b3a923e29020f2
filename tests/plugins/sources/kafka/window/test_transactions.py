"""A transaction of the source is emitted whole, in any order of its records, and does not wait for ever."""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replicator_sdk import TableId
from replicator_sdk.config import OutOfRange
from replicator_sdk.errors import NeedsUserError
from replicator_sdk.testing.contexts import CollectingEmitter, CountingMetrics, TestSourceContext
from replicator_source_kafka import KafkaConfig
from replicator_source_kafka.client.fetch import RangeRecords
from replicator_source_kafka.formats import make_format
from replicator_source_kafka.partition_range import PartitionRange, TopicPartition
from replicator_source_kafka.records import Records
from replicator_source_kafka.window import transactions
from replicator_source_kafka.window.transaction_topic import is_named
from replicator_source_kafka.window.transactions import Transactions
from tests.plugins.sources.kafka.harness.debezium_transactions import Transaction
from tests.plugins.sources.kafka.harness.source_runs import Pump, Run
from tests.services.kafka.broker import Content, KafkaBroker

TOPIC = "shop.transaction"
TABLES = ("orders", "lines")
READ = [TableId("shop", table, "public") for table in TABLES]


class Log:
    """Partitions in memory, read in parts as a broker would send them."""

    def __init__(self, **settings: Any) -> None:
        kafka = {"bootstrapServers": "none:1", "topics": ["t"], "distributed": False, "transactionTopic": TOPIC}
        config = KafkaConfig.model_validate({**kafka, **settings})
        self.metrics = CountingMetrics()
        context = TestSourceContext()
        context.metrics = self.metrics
        self.gate = Transactions(config, make_format(config, OutOfRange.FAIL), READ, context)
        self.written: dict[TopicPartition, list[Content]] = {}
        self.sent: Counter[TopicPartition] = Counter()
        self.rows: Counter[str] = Counter()

    def write(self, each: Transaction, places: list[int], *, ends: bool = True) -> None:
        """A transaction's records; `places` choose the partition of each."""
        records = [(TOPIC, each.begin()), *each.events(), *([(TOPIC, each.end())] if ends else [])]
        for number, (topic, content) in enumerate(records):
            self.written.setdefault((topic, places[number % len(places)]), []).append(content)

    def send(self, place: TopicPartition, count: int) -> None:
        """Read the next records of a partition; count the released ones by transaction."""
        begin = self.sent[place]
        contents = self.written[place][begin : begin + count]
        self.sent[place] = end = begin + len(contents)
        keys, values = (pa.array(column, pa.binary()) for column in zip(*contents, strict=True))
        numbers = np.arange(begin, end)
        self.deliver(
            [RangeRecords(PartitionRange(*place, begin, end), Records(*place, numbers, numbers, keys, values))]
        )

    def deliver(self, pieces: list[RangeRecords]) -> None:
        for piece in self.gate.add(pieces):
            if piece.range.topic != TOPIC:
                rows = (json.loads(value) for value in piece.records.value.to_pylist())
                self.rows.update(row["after"]["note"] for row in rows)


@settings(deadline=None, max_examples=20)
@given(st.data())
def test_a_transaction_is_emitted_whole_or_not_at_all_in_any_order_of_records(data: st.DataObject) -> None:
    rows = st.lists(st.sampled_from(TABLES), max_size=6)
    whole = [
        Transaction(700 + number, [(table, 10 * number + row) for row, table in enumerate(tables)])
        for number, tables in enumerate(data.draw(st.lists(rows, min_size=1, max_size=6)))
    ]
    log = Log()
    for each in whole:
        log.write(each, data.draw(st.lists(st.integers(0, 2), min_size=1, max_size=8)))
    sizes = {f"of {each.number}": len(each.rows) for each in whole}
    while unread := [place for place, records in log.written.items() if log.sent[place] < len(records)]:
        log.send(data.draw(st.sampled_from(sorted(unread))), data.draw(st.integers(1, 4)))
        assert all(count == sizes[note] for note, count in log.rows.items())
    assert log.rows == Counter({note: size for note, size in sizes.items() if size})


def test_a_transaction_does_not_wait_for_tables_that_are_not_read() -> None:
    log = Log()
    log.write(Transaction(1, [("orders", 1), ("audit", 1)]), [0])
    del log.written["audit", 0]
    for place in list(log.written):
        log.send(place, 9)
    assert log.rows == {"of 1": 1}


def test_too_many_held_records_are_released_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "_MOST_BYTES", 100)
    log = Log()
    log.write(Transaction(1, [("orders", 1)]), [0], ends=False)
    log.send(("orders", 0), 1)
    assert log.rows == {"of 1": 1}
    assert log.metrics.counters["source.transactions_cut"] == 1


@pytest.mark.parametrize(
    ("table", "name", "is_it"),
    [
        (TableId("shop", "orders", "public"), "public.orders", True),
        (TableId("shop", "orders", "public"), "shop.public.orders", True),
        (TableId("shop", "orders"), "shop.orders", True),
        (TableId("shop", "orders", "public"), "lic.orders", False),
        (TableId("shop", "orders", "public"), "public.order", False),
    ],
)
def test_debeziums_names_of_tables_are_matched(table: TableId, name: str, is_it: bool) -> None:
    assert is_named(table, name) is is_it


# ------------------------------------------------------------ on a broker


class Shop:
    """Topics of a connector, of three partitions each, also that of its transactions, as Connect makes them."""

    def __init__(self, broker: KafkaBroker) -> None:
        self._broker = broker
        self.prefix = f"shop{uuid.uuid4().hex[:6]}"
        self.topics = [f"{self.prefix}.public.{table}" for table in TABLES]
        self.borders = f"{self.prefix}.transaction"
        for topic in (*self.topics, self.borders):
            broker.create_topic(topic, 3)

    def write(self, each: Transaction, *, ends: bool = True) -> None:
        for table, content in each.events():
            self._broker.produce(f"{self.prefix}.public.{table}", [content])
        self._broker.produce(self.borders, [each.begin(), *([each.end()] if ends else [])])

    def pump(self, **more: Any) -> Pump:
        settings = {"transactionTopic": self.borders, "distributed": False, **more}
        return Pump(self._broker, self.topics, **settings)

    def close(self) -> None:
        self._broker.delete_topics(*self.topics, self.borders)


@pytest.fixture
def shop(kafka: KafkaBroker) -> Any:
    made = Shop(kafka)
    made.write(Transaction(100, [("orders", 0), ("lines", 0)]))
    yield made
    made.close()


def notes(run: Run) -> list[Counter[str]]:
    """The transactions of each window with rows, with the count of their rows."""
    windows = [[batch for batch in window.events if hasattr(batch, "row")] for window in run.emitter.closed_windows]
    found = [Counter(n for batch in window for n in batch.row.field("note").to_pylist()) for window in windows]  # type: ignore[union-attr]
    return [each for each in found if each]


def test_windows_contain_whole_transactions_also_in_a_replay(shop: Shop) -> None:
    pump = shop.pump(kafka={"fetch.max.wait.ms": 20})
    first = pump.prepare()
    emitter = CollectingEmitter()
    with pump.running(emitter) as run:
        for number in range(101, 109):
            shop.write(Transaction(number, [(TABLES[row % 2], 10 * number + row) for row in range(5)]))
        run.wait_for(pump.source.latest_offset())
    found = notes(run)
    assert sum(found, Counter()) == {"of 100": 2, **{f"of {number}": 5 for number in range(101, 109)}}
    assert all(count == 5 for window in found for note, count in window.items() if note != "of 100")
    pump.offset = first
    with pump.running() as again:
        again.wait_for(emitter.last_offset)  # type: ignore[arg-type]
    assert notes(again)[: len(found)] == found


def test_a_transaction_without_its_end_waits_and_is_then_released_and_counted(shop: Shop) -> None:
    pump = shop.pump(transactionWaitSeconds=3)
    pump.context.metrics = counted = CountingMetrics()
    with pump.running() as run:
        run.wait_for(pump.source.latest_offset())
        since = time.monotonic()
        shop.write(Transaction(101, [("orders", 1), ("lines", 1)]), ends=False)
        run.wait_for(pump.source.latest_offset())
        assert time.monotonic() - since > 2
    assert sum(notes(run), Counter()) == {"of 100": 2, "of 101": 2}
    assert counted.counters["source.transactions_cut"] == 1


def test_a_missing_topic_of_transactions_is_named(shop: Shop) -> None:
    with pytest.raises(NeedsUserError, match=r"RPL-3951.*no\.such\.topic"):
        shop.pump(transactionTopic="no.such.topic").prepare()
