"""A value that cannot be read stops its table only, however often the pipeline runs; the fix that the error names ends it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from replicator_sdk import failpoint
from replicator_sdk.datatype import DATE
from replicator_sdk.errors import ReplicatorError
from replicator_sdk.schema import Column
from tests.plugins.sources.kafka.harness.connect_json import envelope, key_of
from tests.plugins.sources.kafka.harness.delta_copy import DeltaCopy
from tests.plugins.sources.kafka.harness.memory_copy import MemoryCopy, topics_of
from tests.plugins.sources.kafka.harness.source_runs import inserts, orders
from tests.services.kafka.broker import KafkaBroker
from tests.services.kafka.client import Content

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BOTH = pytest.mark.parametrize("distributed", [True, False])
QUARANTINE = {"database": "_replicator", "table": "kafka_quarantine"}
DATED = orders("orders", Column("day", DATE))


def dated(number: int, written: str | None = None) -> Content:
    """The insert of a row with a date; `written` is what the record has instead of its days."""
    [(key, value)] = inserts([number], DATED, day=date(2000, 1, 1))
    assert value is not None
    return key, value if written is None else value.replace(b'"day":10957', b'"day":' + written.encode())


def priced(number: int, price: float) -> Content:
    """The insert of a row with a price, without a schema."""
    source = {"connector": "postgresql", "db": "shop", "schema": "public", "table": "orders", "ts_ms": 1}
    value = {"before": None, "after": {"id": number, "price": price}, "source": source, "op": "c"}
    return json.dumps({"id": number}).encode(), json.dumps(value).encode()


def without_row(number: int) -> Content:
    return key_of(DATED, {"id": number}), envelope(DATED, "u", None, None)


@dataclass(frozen=True)
class Bad:
    """A bad record of the table `orders`, and what its error says is to be done.

    Attributes:
        code: Of the error.
        good: A good record.
        bad: A bad one.
        settings: The source's settings that end the error.
        ids: The ids of all rows then, where 2 is the bad record's.
    """

    code: str
    good: Callable[[int], Content]
    bad: Callable[[int], Content]
    settings: dict[str, Any]
    ids: tuple[int, ...]

    def __repr__(self) -> str:
        return self.code


_POISON: dict[str, Any] = {"onPoison": "quarantine"}
CASES = {
    "a date out of range": Bad("RPL-3905", dated, lambda n: dated(n, "99999999"), {"outOfRange": "null"}, (1, 2, 3)),
    "a text for a date": Bad("RPL-39", dated, lambda n: dated(n, '"x"'), _POISON, (1, 3)),
    "an update without its row": Bad("RPL-3911", dated, without_row, _POISON, (1, 3)),
    "no JSON": Bad("RPL-3900", dated, lambda n: (dated(n)[0], b"\0garbage"), _POISON, (1, 3)),
}


@BOTH
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("at_first", [False, True])
def test_a_bad_value_stops_its_table_only_until_it_is_fixed(
    tmp_path: Path, kafka: KafkaBroker, case: str, *, distributed: bool, at_first: bool
) -> None:
    """Also where the table's first records, which the tables are found by, have the value."""
    bad = CASES[case]
    with topics_of(kafka, "orders", "others") as topics:
        copy = MemoryCopy(tmp_path, kafka, topics=list(topics.values()), distributed=distributed)
        kafka.produce(topics["orders"], [bad.good(1)])
        kafka.produce(topics["others"], inserts([1], orders("others")))
        if not at_first:
            copy.run()
        kafka.produce(topics["orders"], [bad.bad(2), bad.good(3)])
        for number in (2, 3, 4):
            kafka.produce(topics["others"], inserts([number], orders("others")))
            with pytest.raises(ReplicatorError, match=bad.code) as caught:
                copy.run()
            assert caught.value.table == "public.orders"
            assert copy.ids("others") == list(range(1, number + 1))
            assert copy.ids("orders") in ([], [1])
        copy.source |= bad.settings
        if bad.settings is _POISON:
            copy.document["tables"] = [{"database": "shop", "schema": "public", "table": "*"}, QUARANTINE]
        for _ in range(2):
            copy.run()
            assert copy.ids("orders") == list(bad.ids)
            assert copy.ids("others") == [1, 2, 3, 4]


@BOTH
def test_a_number_that_its_column_cannot_hold_stops_its_table_only_and_another_pipeline_reads_it(
    tmp_path: Path, kafka: KafkaBroker, *, distributed: bool
) -> None:
    with topics_of(kafka, "orders", "others") as topics:
        settings: dict[str, Any] = {"topics": list(topics.values()), "distributed": distributed}
        copy = MemoryCopy(tmp_path, kafka, **settings)
        kafka.produce(topics["orders"], [priced(1, 1.5)])
        kafka.produce(topics["others"], inserts([1], orders("others")))
        copy.run()
        kafka.produce(topics["orders"], [priced(2, 2**53 + 1)])
        for number in (2, 3):
            kafka.produce(topics["others"], inserts([number], orders("others")))
            with pytest.raises(ReplicatorError, match=r"RPL-3922.*`name` and target folder"):
                copy.run()
            assert copy.ids("others") == list(range(1, number + 1))
        copy.document["tables"] = [{"table": "others"}]
        copy.run()
        own = MemoryCopy(
            tmp_path, kafka, name="own", columnTypes={"public.orders": {"price": "decimal(38,2)"}}, **settings
        )
        own.document["tables"] = [{"table": "orders"}]
        own.run()
        assert [row["price"] for row in own.rows(DATED.table)] == [Decimal("1.50"), Decimal(2**53 + 1)]


@BOTH
@pytest.mark.parametrize("case", ["a date out of range", "an update without its row"])
def test_a_bad_value_of_a_table_that_is_not_selected_is_no_error(
    tmp_path: Path, kafka: KafkaBroker, case: str, *, distributed: bool
) -> None:
    with topics_of(kafka, "orders", "others") as topics:
        copy = MemoryCopy(tmp_path, kafka, topics=list(topics.values()), distributed=distributed)
        copy.document["tables"] = [{"table": "others"}]
        for number in (1, 3):
            kafka.produce(topics["orders"], [CASES[case].bad(number)])
            kafka.produce(topics["others"], inserts([number], orders("others")))
            copy.run()
        assert copy.ids("others") == [1, 3]


@pytest.mark.parametrize("into", ["memory", "delta"])
@pytest.mark.parametrize(
    ("distributed", "point"),
    [
        (True, "engine.slice.planned"),
        (True, "engine.slice.applied"),
        (False, "engine.batch.gathered"),
    ],
)
def test_three_runs_after_one_that_was_cut_off_beside_a_bad_value_lose_nothing(
    tmp_path: Path, spark: SparkSession, kafka: KafkaBroker, into: str, point: str, *, distributed: bool
) -> None:
    bad = CASES["a date out of range"]
    with topics_of(kafka, "orders", "others") as topics:
        settings: dict[str, Any] = {"topics": list(topics.values()), "distributed": distributed}
        copy = (
            DeltaCopy(tmp_path, spark, kafka, **settings)
            if into == "delta"
            else MemoryCopy(tmp_path, kafka, **settings)
        )
        kafka.produce(topics["orders"], [bad.good(1)])
        kafka.produce(topics["others"], inserts([1], orders("others")))
        copy.run()
        kafka.produce(topics["orders"], [bad.bad(2)])
        kafka.produce(topics["others"], inserts([2], orders("others")))
        failpoint.arm(f"{point}=raise")
        with pytest.raises(ReplicatorError, match="RPL-9900"):
            copy.run()
        failpoint.arm("")
        for number in (3, 4, 5):
            kafka.produce(topics["orders"], [bad.good(number)])
            kafka.produce(topics["others"], inserts([number], orders("others")))
            with pytest.raises(ReplicatorError, match=bad.code):
                copy.run()
            assert copy.ids("others") == list(range(1, number + 1))
            assert copy.ids("orders") == [1]
        copy.source |= bad.settings
        copy.run()
        assert copy.ids("orders") == copy.ids("others") == [1, 2, 3, 4, 5]
