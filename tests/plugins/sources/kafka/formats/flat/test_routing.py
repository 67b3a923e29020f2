"""Which tables a record is for, by rules, and what it does, by a field: against a model in plain Python."""

from __future__ import annotations

import re
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from replicator_sdk.schema import TableId
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.formats import Decoded, Poison
from replicator_source_kafka.formats.flat.routing import named_tables, routed_tables
from replicator_source_kafka.record_settings import Route
from tests.plugins.sources.kafka.formats.connect import Field, struct, with_schema
from tests.plugins.sources.kafka.formats.decoded import said
from tests.plugins.sources.kafka.formats.flat.test_flat_json import ID, KEY, Pair, decode, embedded, plain

_NAMES = ["order", "order_line", "invoice", "note", "", None]
_RULES = st.lists(
    st.fixed_dictionaries(
        {}, optional={"table": st.sampled_from(["shop.orders", "shop.all", "bills"]), "matches": st.sampled_from(["order.*", "invoice|note", "n.te", ".*"])}
    ).filter(bool),
    min_size=1,
    max_size=4,
).filter(lambda rules: any("matches" in rule for rule in rules))  # fmt: skip


def table_of(name: str) -> TableId:
    database, _, table = name.rpartition(".")
    return TableId(database or "kafka", table)


def model(rules: list[dict[str, str]], names: list[str | None]) -> tuple[dict[TableId, list[int]], set[int]]:
    """The records of each table, and those of none."""
    found: dict[TableId, list[int]] = {}
    left = set()
    for number, name in enumerate(names):
        taking = [
            rule
            for rule in rules
            if "matches" not in rule or (name is not None and re.fullmatch(rule["matches"], name))
        ]
        for table in dict.fromkeys(table_of(rule["table"]) for rule in taking if "table" in rule):
            found.setdefault(table, []).append(number)
        if not taking:
            left.add(number)
    return found, left


def routed(decoded: Decoded) -> dict[TableId, list[int]]:
    found: dict[TableId, list[int]] = {}
    for part in decoded.parts:
        found.setdefault(part.table, []).extend(part.index.tolist())
    return {table: sorted(index) for table, index in found.items()}


@settings(deadline=None, max_examples=150)
@given(_RULES, st.lists(st.sampled_from(_NAMES), min_size=1, max_size=12))
def test_each_record_is_in_the_tables_whose_rules_take_it_and_no_other(
    rules: list[dict[str, str]], names: list[str | None]
) -> None:
    rows = [{"id": n, **({} if name is None else {"kind": name})} for n, name in enumerate(names)]
    decoded = decode(
        "upsert-json", *(plain({"id": n}, row) for n, row in enumerate(rows)), tableField="kind", routes=rules
    )
    expected, left = model(rules, names)
    assert routed(decoded) == expected
    assert {poison.index for poison in decoded.poison} == left
    assert {poison.code for poison in decoded.poison} == {
        "RPL-3912" if names[number] is None else "RPL-3918" for number in left
    }
    for part in decoded.parts:
        assert [row["id"] for row in part.row.to_pylist()] == part.index.tolist()


def test_without_a_rule_about_the_field_every_record_is_in_every_table_deletes_too() -> None:
    rules = [{"table": "shop.public.live"}, {"table": "backup"}]
    decoded = decode("upsert-json", plain({"id": 1}, {"id": 1, "a": "x"}), plain({"id": 1}, None), routes=rules)
    both = {TableId("shop", "live", "public"), TableId("kafka", "backup")}
    assert routed(decoded) == {table: [0, 1] for table in both}
    assert sorted(set(map(str, said(decoded)))) == ["(0, 2, {'id': 1, 'a': 'x'})", "(1, 3, {'id': 1})"]
    assert decoded.poison == []


def test_a_record_without_a_value_is_in_no_table_where_rules_are_about_its_field() -> None:
    rules = [{"table": "orders", "matches": "o"}, {"table": "all"}]
    decoded = decode("upsert-json", plain({"id": 1}, None), routes=rules, tableField="kind")
    assert (decoded.parts, [p.code for p in decoded.poison]) == ([], ["RPL-3909"])


def test_records_with_schemas_are_routed_alike() -> None:
    rules = [{"table": "plus", "matches": "[0-9]+"}, {"matches": ".*"}]
    decoded = decode(
        "flattened-json", embedded({"id": 5, "day": 1}), embedded({"id": -5, "day": 1}), tableField="id", routes=rules
    )
    assert routed(decoded) == {TableId("kafka", "plus"): [0]}
    assert decoded.poison == []


def operated(*rows: dict[str, Any], **given: Any) -> Decoded:
    pairs: list[Pair] = [plain({"id": n}, {"id": n, **row}) for n, row in enumerate(rows)]
    return decode("upsert-json", *pairs, operationField="op", **given)


def test_a_field_says_what_a_record_does() -> None:
    decoded = operated({"op": "I", "a": 1}, {"op": "U", "a": 2}, {"op": "D", "a": 3})
    assert said(decoded) == [
        (0, 1, {"id": 0, "op": "I", "a": 1}),
        (1, 2, {"id": 1, "op": "U", "a": 2}),
        (2, 3, {"id": 2, "op": None, "a": None}),
    ]
    assert decoded.poison == []


def test_what_its_values_mean_can_be_said_and_another_one_is_poison_of_its_table() -> None:
    meanings = {"insert": ["create", "read"], "update": ["change"], "delete": ["remove", "expire"]}
    rows = [{"op": op} for op in ("read", "change", "expire", "I", "", "create")]
    decoded = operated(*rows, {"op": None}, {}, operations=meanings)
    assert [(index, op) for index, op, _ in said(decoded)] == [(0, 1), (1, 2), (2, 3), (5, 1)]
    assert [(p.index, p.code) for p in decoded.poison] == [(n, "RPL-3919") for n in (3, 4, 6, 7)]
    assert {p.table for p in decoded.poison} == {TableId("public", "orders")}


@pytest.mark.parametrize("op", [{"a": 1}, [1], 1, True])
def test_an_operation_that_is_no_text_is_poison_and_says_nothing_of_others(op: object) -> None:
    decoded = operated({"op": "D"}, {"op": op}, {"op": "I"})
    assert [(p.index, p.code) for p in decoded.poison] == [(1, "RPL-3900")]
    assert [(index, kind) for index, kind, _ in said(operated({"op": "D"}, {"op": op}, {"op": "I"}))] == [
        (0, 3),
        (2, 1),
    ]


@pytest.mark.parametrize("more", [{}, {"id": None}])
def test_a_delete_that_says_only_its_operation_is_of_the_record_s_key_whatever_is_beside_it(
    more: dict[str, Any],
) -> None:
    pairs = [plain({"id": 3}, {"id": 3, "op": "I", "a": 1}), plain({"id": 1}, {"op": "D", **more})]
    for block in (pairs, pairs[1:]):
        decoded = decode("upsert-json", *block, operationField="op")
        assert said(decoded)[-1][1:] == (
            3,
            {"id": 1, "op": None, "a": None} if block is pairs else {"id": 1, "op": None},
        )
        assert decoded.poison == []


def test_a_pattern_takes_no_longer_for_a_longer_value_than_its_length() -> None:
    began = time.monotonic()
    rules = [{"table": "t", "matches": "(a+)+b"}, {"matches": ".*"}]
    rows = [plain({"id": n}, {"id": n, "kind": "a" * 5000}) for n in range(20)]
    assert decode("upsert-json", *rows, tableField="kind", routes=rules).parts == []
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    "settings", [{"tableField": "kind"}, {"tableField": "kind", "routes": [{"table": "t", "matches": "b"}]}]
)
def test_many_values_cost_no_more_for_each_record(settings: dict[str, Any]) -> None:
    poison: list[Poison] = []
    values = pa.array([None if n % 2 else f"{n}" for n in range(200_000)])
    began = time.monotonic()
    config = KafkaConfig.model_validate(
        {"bootstrapServers": "b:1", "topics": ["t"], "format": "upsert-json", **settings}
    )
    index = np.arange(len(values))
    if config.routes:
        assert list(routed_tables(config.routes, values, index, poison)) == []
        assert len(poison) == len(values)
    else:
        assert sum(len(positions) for _, positions in named_tables(values, "t", index, poison)) == len(values) // 2
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("name", ["", ".a", "a..b", "a.b.c.d", "_replicator.kafka_quarantine", " a"])
def test_a_route_names_a_table_of_one_to_three_parts(name: str) -> None:
    with pytest.raises(ValidationError):
        Route.model_validate({"table": name})


def test_a_field_that_is_a_record_names_no_table() -> None:
    row = struct("", ID, struct("kind", Field("a", "int32")))
    value = with_schema(row, {"id": 1, "kind": {"a": 1}})
    decoded = decode("upsert-json", (with_schema(KEY, {"id": 1}), value), tableField="kind")
    assert [p.code for p in decoded.poison] == ["RPL-3912"]


def test_a_record_without_a_value_deletes_its_key_also_beside_an_operation_field() -> None:
    decoded = decode("upsert-json", plain({"id": 1}, None), operationField="op")
    assert said(decoded) == [(0, 3, {"id": 1})]
