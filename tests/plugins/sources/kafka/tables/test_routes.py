"""One topic into several tables by rules, with an operation in a field, from a real broker: as a model in plain Python has them."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from replicator_sdk import TableId
from replicator_sdk.errors import ReplicatorError
from replicator_source_kafka.tables import quarantine
from tests.plugins.sources.kafka.harness.memory_copy import MemoryCopy
from tests.plugins.sources.kafka.window.test_numbers_after_loss import end_after_change
from tests.services.kafka.broker import KafkaBroker
from tests.services.kafka.client import Content
from tests.services.kafka.fixtures import MakeTopic

BOTH = pytest.mark.parametrize("distributed", [True, False])
_ROUTES = [
    {"table": "shop.sales.orders", "matches": "order|refund"},
    {"table": "shop.sales.refunds", "matches": "refund"},
    {"table": "shop.sales.all"},
    {"matches": "heartbeat"},
]
_TABLES = {"orders": ("order", "refund"), "refunds": ("refund",), "all": ("order", "refund", "invoice", "heartbeat")}


def record(number: int, kind: str, op: str, **row: Any) -> Content:
    value = {"id": number, "kind": kind, "op": op, **row}
    return json.dumps({"id": number}).encode(), json.dumps(value).encode()


def copy_of(
    folder: Path, broker: KafkaBroker, topic: str, routes: Sequence[dict[str, str]] = _ROUTES, *, distributed: bool
) -> MemoryCopy:
    field = {"tableField": "kind"} if any("matches" in route for route in routes) else {}
    made = MemoryCopy(
        folder, broker, topics=[topic], format="upsert-json", routes=[*routes], operationField="op", distributed=distributed, **field
    )  # fmt: skip
    made.document["tables"] = [{"database": "shop", "schema": "sales", "table": "*"}]
    return made


@BOTH
def test_a_random_history_ends_with_each_table_as_its_rules_say(
    tmp_path: Path, kafka: KafkaBroker, kafka_topic: MakeTopic, distributed: bool
) -> None:
    chance, topic = random.Random(5), kafka_topic(3)
    copy = copy_of(tmp_path, kafka, topic, distributed=distributed)
    expected: dict[str, dict[int, Any]] = {name: {} for name in _TABLES}
    kinds: dict[int, str] = {}
    for _ in range(4):
        sent = []
        for step in range(120):
            number = chance.randrange(40)
            # A record of another kind would leave the row of the former one in its table.
            kind = kinds.setdefault(number, chance.choice(["order", "refund", "invoice", "heartbeat"]))
            op = chance.choice("IUUD")
            sent.append(record(number, kind, op, amount=step))
            for name, taken in _TABLES.items():
                if kind in taken and op == "D":
                    expected[name].pop(number, None)
                elif kind in taken:
                    expected[name][number] = {"id": number, "kind": kind, "op": op, "amount": step}
        kafka.produce(topic, sent)
        copy.run()
        for name, rows in expected.items():
            found = {row["id"]: row for row in copy.rows(TableId("shop", name, "sales"))}
            assert found == rows, name


@BOTH
def test_a_record_of_no_rule_stops_the_run_until_a_rule_takes_it_or_it_is_put_aside(
    tmp_path: Path, kafka: KafkaBroker, kafka_topic: MakeTopic, distributed: bool
) -> None:
    topic = kafka_topic()
    copy = copy_of(tmp_path, kafka, topic, _ROUTES[:1], distributed=distributed)
    kafka.produce(topic, [record(1, "order", "I"), record(2, "invoice", "I"), record(3, "order", "I")])
    for _ in range(2):
        with pytest.raises(ReplicatorError, match=r"RPL-3918.*add a rule to routes that takes it"):
            copy.run()
    copy.source["routes"] = [*_ROUTES[:1], {"matches": "invoice"}]
    copy.run()
    assert copy.ids("orders", schema="sales") == [1, 3]
    kafka.produce(topic, [record(4, "order", "?"), record(5, "order", "U")])
    with pytest.raises(ReplicatorError, match=r"RPL-3919.*name the value of operationField in operations"):
        copy.run()
    copy.source["onPoison"] = "quarantine"
    copy.document["tables"].append({"database": quarantine.TABLE.database, "table": quarantine.TABLE.table})
    copy.run()
    assert copy.ids("orders", schema="sales") == [1, 3, 5]
    assert [row["code"] for row in copy.rows(quarantine.TABLE)] == ["RPL-3919"]


@BOTH
def test_a_table_of_a_new_rule_begins_with_the_records_after_it(
    tmp_path: Path, kafka: KafkaBroker, kafka_topic: MakeTopic, distributed: bool
) -> None:
    topic = kafka_topic()
    copy = copy_of(tmp_path, kafka, topic, _ROUTES[:1], distributed=distributed)
    kafka.produce(topic, [record(n, "order", "I") for n in range(5)])
    copy.run()
    copy.source["routes"] = [_ROUTES[0], _ROUTES[2]]
    kafka.produce(topic, [record(n, "order", "U") for n in range(3, 8)])
    for _ in range(2):
        copy.run()
    assert copy.ids("orders", schema="sales") == list(range(8))
    assert copy.ids("all", schema="sales") == list(range(3, 8))


@BOTH
def test_without_rules_about_a_field_each_table_gets_every_record(
    tmp_path: Path, kafka: KafkaBroker, kafka_topic: MakeTopic, distributed: bool
) -> None:
    topic = kafka_topic(2)
    both = [{"table": "shop.sales.live"}, {"table": "shop.sales.backup"}]
    copy = copy_of(tmp_path, kafka, topic, both, distributed=distributed)
    kafka.produce(topic, [record(n, "order", "I") for n in range(50)])
    copy.run()
    kafka.produce(topic, [(json.dumps({"id": 7}).encode(), None), record(8, "order", "D")])
    copy.run()
    left = [n for n in range(50) if n not in (7, 8)]
    assert copy.ids("live", schema="sales") == left
    assert copy.ids("backup", schema="sales") == left


@BOTH
@pytest.mark.parametrize("records", [1, 2, 3])
def test_a_column_that_comes_in_all_tables_at_once_comes_with_all_rows(
    tmp_path: Path, kafka: KafkaBroker, kafka_topic: MakeTopic, distributed: bool, records: int
) -> None:
    """One record changes the structure of more tables than its window has records."""
    names, topic = [f"t{number}" for number in range(5)], kafka_topic()
    copy = copy_of(tmp_path, kafka, topic, [{"table": f"shop.sales.{name}"} for name in names], distributed=distributed)
    kafka.produce(topic, [record(0, "order", "I")])
    copy.run()
    kafka.produce(topic, [record(n, "order", "I", more=n) for n in range(1, records + 1)])
    for _ in range(2):
        copy.run()
        assert {name: copy.ids(name, schema="sales") for name in names} == {
            name: list(range(records + 1)) for name in names
        }


def test_an_edit_of_routes_after_a_run_that_ended_inside_a_window_loses_no_row(
    tmp_path: Path, kafka: KafkaBroker, kafka_topic: MakeTopic
) -> None:
    topic = kafka_topic()
    tables = [{"table": f"shop.sales.{name}"} for name in ("a", "b", "c")]
    copy = copy_of(tmp_path, kafka, topic, tables, distributed=False)
    for number, routes in enumerate((tables[:2], tables[1:], tables, tables[:1])):
        copy.source["routes"] = tables
        kafka.produce(topic, [record(10 * number, "order", "I")])
        copy.run()
        # The first changes of structure are durable; the rows after them, and the offset, are not.
        kafka.produce(topic, [record(10 * number + n, "order", "I", **{f"more{number}": n}) for n in range(1, 4)])
        end_after_change(copy)
        copy.source["routes"] = routes
        copy.run()
        for route in routes:
            ids = copy.ids(route["table"].rpartition(".")[2], schema="sales")
            assert ids[-4:] == [10 * number + n for n in range(4)], (number, route)


def test_more_changes_of_structure_than_a_window_has_numbers_for_are_refused_until_the_former_routes_are_back(
    tmp_path: Path, kafka: KafkaBroker, kafka_topic: MakeTopic
) -> None:
    topic = kafka_topic()
    all_tables = [{"table": f"shop.sales.t{number}"} for number in range(6)]
    copy = copy_of(tmp_path, kafka, topic, all_tables, distributed=False)
    kafka.produce(topic, [record(0, "order", "I")])
    copy.run()
    copy.source["routes"] = former = all_tables[:1]
    kafka.produce(topic, [record(1, "order", "I", more=1)])
    end_after_change(copy)
    copy.source["routes"] = all_tables
    for _ in range(2):
        with pytest.raises(ReplicatorError, match=r"RPL-3923.*put the former routes back"):
            copy.run()
    copy.source["routes"] = former
    copy.run()
    copy.source["routes"] = all_tables
    kafka.produce(topic, [record(2, "order", "I", more=2)])
    copy.run()
    assert copy.ids("t0", schema="sales") == [0, 1, 2]
    assert copy.ids("t5", schema="sales") == [0, 2]


@BOTH
@pytest.mark.parametrize("selected", ["*", "refunds"])
def test_a_record_of_no_rule_is_no_one_table_s_though_the_topic_has_its_name(
    tmp_path: Path, kafka: KafkaBroker, kafka_topic: MakeTopic, distributed: bool, selected: str
) -> None:
    topic = kafka.create_topic(f"{kafka_topic()}.sales.orders")
    routes = [{"table": f"shop.sales.{kind}s", "matches": kind} for kind in ("order", "refund")]
    copy = copy_of(tmp_path, kafka, topic, routes, distributed=distributed)
    copy.document["tables"][0]["table"] = selected
    kafka.produce(topic, [record(1, "order", "I"), record(2, "refund", "I")])
    copy.run()
    kafka.produce(topic, [record(3, "refund_v2", "I"), record(4, "order", "I"), record(5, "refund", "I")])
    for _ in range(2):
        with pytest.raises(ReplicatorError, match="RPL-3918"):
            copy.run()
        assert 5 not in copy.ids("refunds", schema="sales")
    copy.source["routes"][1]["matches"] = "refund.*"
    copy.run()
    assert copy.ids("refunds", schema="sales") == [2, 3, 5]


@BOTH
def test_a_delete_with_the_key_in_the_record_s_key_only_removes_the_row(
    tmp_path: Path, kafka: KafkaBroker, kafka_topic: MakeTopic, distributed: bool
) -> None:
    topic = kafka_topic()
    copy = copy_of(tmp_path, kafka, topic, distributed=distributed)
    kafka.produce(topic, [record(1, "order", "I"), record(2, "order", "I")])
    copy.run()
    gone = (json.dumps({"id": 1}).encode(), json.dumps({"kind": "order", "op": "D"}).encode())
    kafka.produce(topic, [gone, record(3, "order", "I")])
    copy.run()
    assert copy.ids("orders", schema="sales") == [2, 3]
