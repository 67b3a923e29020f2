"""Pruning leaves out no file that holds a key, and of the others nearly all."""

from __future__ import annotations

import datetime as dt
import json
import math
import random
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replicator_target_delta.apply.pruning import candidate_files
from replicator_target_delta.file_index.file_index import FileIndex
from tests.plugins.targets.delta.file_index.actions import data_file, holding, index_of

KINDS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int8(), st.integers(-128, 127)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.string(), st.text(max_size=40)),
    (pa.string(), st.text("aä\U0001f389\U0010ffff\0", max_size=36)),
    (pa.string(), st.text("ab", max_size=3).map(lambda text: "a prefix of more than sixteen bytes" + text)),
    (pa.float32(), st.floats(width=32) | st.sampled_from([0.0, -0.0])),
    (pa.float64(), st.floats() | st.sampled_from([0.0, -0.0])),
    (pa.decimal128(9, 2), st.decimals(-(10**6), 10**6, places=2)),
    (pa.decimal128(38, 10), st.decimals(-(10**27), 10**27, places=10)),
    (pa.date32(), st.dates()),
    (pa.timestamp("us"), st.datetimes()),
    (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(dt.UTC))),
    (pa.binary(), st.binary(max_size=4)),
]


@pytest.mark.parametrize("number", [1, 60])  # files: few and many are read in different ways
@pytest.mark.parametrize(("kind", "values"), KINDS, ids=[f"{i}-{k}" for i, (k, _) in enumerate(KINDS)])
def test_no_file_that_holds_a_key_is_left_out(kind: pa.DataType, values: st.SearchStrategy[Any], number: int) -> None:
    @settings(max_examples=40, deadline=None)
    @given(st.lists(st.lists(st.none() | values, min_size=1, max_size=3), min_size=1, max_size=4), st.data())
    def check(contents: list[list[Any]], data: st.DataObject) -> None:
        files = [holding(f"{i}-{n}", c=pa.array(c, kind)) for i in range(number) for n, c in enumerate(contents)]
        held = data.draw(st.integers(0, len(contents) - 1))
        keys = [data.draw(st.sampled_from(contents[held])), *data.draw(st.lists(st.none() | values, max_size=3))]
        found = {file.path for file in candidate_files(index_of(*files), pa.table({"c": pa.array(keys, kind)}))}
        assert found >= {f"{i}-{held}" for i in range(number)}

    check()


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_file_that_holds_a_key_of_several_columns_is_left_out(data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(KINDS), min_size=2, max_size=3))
    row = st.tuples(*(data.draw(st.sampled_from([st.none() | v, v])) for _, v in chosen))
    contents = data.draw(st.lists(st.lists(row, min_size=1, max_size=3), min_size=1, max_size=5))
    others = data.draw(st.lists(row, max_size=4))
    held = data.draw(st.integers(0, len(contents) - 1))
    keys = _columns([data.draw(st.sampled_from(contents[held])), *others], chosen)
    files = [holding(str(n), **_columns(content, chosen)) for n, content in enumerate(contents)]
    found = candidate_files(index_of(*files), pa.table(keys))
    assert str(held) in {file.path for file in found}


def _columns(rows: list[tuple[Any, ...]], chosen: list[tuple[pa.DataType, Any]]) -> dict[str, pa.Array]:
    return {f"c{i}": pa.array([row[i] for row in rows], kind) for i, (kind, _) in enumerate(chosen)}


def _text(number: int) -> str:
    return f"customer-{number:09}"


def _uuid(number: int) -> str:
    return str(uuid.UUID(int=number << 96))


MAKERS: list[tuple[pa.DataType, Callable[[int], Any]]] = [
    (pa.int64(), lambda n: n),
    (pa.string(), _text),
    (pa.string(), _uuid),
    (pa.decimal128(12, 2), lambda n: Decimal(n) / 100),
    (pa.decimal128(30, 2), lambda n: Decimal(n) * 10**15),
    (pa.float64(), lambda n: n / 3),
    (pa.date32(), lambda n: dt.date(1, 1, 1) + dt.timedelta(days=n)),
    (pa.timestamp("us"), lambda n: dt.datetime(1970, 1, 1) + dt.timedelta(seconds=n)),
]


def _clustered(kind: pa.DataType, make: Callable[[int], Any]) -> FileIndex:
    """500 files of a thousand keys each, in order; two of their rows are enough for the statistics."""
    ends = [[make(1000 * n), make(1000 * n + 999)] for n in range(500)]
    return index_of(*(holding(str(n), c=pa.array(values, kind)) for n, values in enumerate(ends)))


@pytest.mark.parametrize(("kind", "make"), MAKERS, ids=[f"{i}-{k}" for i, (k, _) in enumerate(MAKERS)])
def test_keys_far_apart_open_none_of_the_files_between_them(kind: pa.DataType, make: Callable[[int], Any]) -> None:
    index = _clustered(kind, make)
    keys = pa.table({"c": pa.array([make(7), make(499_007)], kind)})
    assert [file.path for file in candidate_files(index, keys)] == ["0", "499"]


def test_a_key_of_several_columns_opens_only_files_that_may_hold_all_of_them_together() -> None:
    ids = pa.array([0, 999], pa.int64())
    files = [
        holding(f"{tenant}-{n}", tenant=pa.array([tenant, tenant]), id=pa.array([1000 * n, 1000 * n + 999]))
        for tenant in ("eu", "us")
        for n in range(50)
    ]
    keys = pa.table({"tenant": ["eu", "us"], "id": pa.array([3007, 9007], ids.type)})
    assert [file.path for file in candidate_files(index_of(*files), keys)] == ["eu-3", "us-9"]


@pytest.mark.parametrize("more", ["", " of the Union"])
def test_one_key_of_another_form_does_not_blur_the_bounds_of_the_others(more: str) -> None:
    """Then nothing is the same at the beginning of all keys, and the digits come late."""
    files = [
        holding(str(n), c=pa.array([f"customer{more}-{1000 * n:09}", f"customer{more}-{1000 * n + 999:09}"]))
        for n in range(500)
    ]
    index = index_of(holding("other", c=pa.array(["a first one"])), *files)
    keys = pa.table({"c": [f"customer{more}-{7:09}", f"customer{more}-{499_007:09}"]})
    assert [file.path for file in candidate_files(index, keys)] == ["0", "499"]


def test_very_many_keys_open_every_file_they_are_in() -> None:
    index = _clustered(pa.string(), _uuid)
    chosen = random.Random(1).sample(range(500_000), 70_000)
    keys = pa.table({"c": [_uuid(n) for n in chosen]})
    assert {int(f.path) for f in candidate_files(index, keys)} >= {n // 1000 for n in chosen}


FOREIGN = {
    "none": None,
    "no JSON": "{",
    "another type": '{"minValues":{"c":"a"},"maxValues":{"c":"b"}}',
    "half a bound": '{"minValues":{"c":5}}',
    "a list": "[1]",
    "a fraction": '{"minValues":{"c":1.5},"maxValues":{"c":1.6}}',
    "beyond the type": '{"minValues":{"c":1},"maxValues":{"c":99999999999999999999}}',
    "not a number": '{"minValues":{"c":"NaN"},"maxValues":{"c":"NaN"}}',
    "rows but no values": '{"numRecords":3}',
}


@pytest.mark.parametrize("others", [0, 100])
@pytest.mark.parametrize("stats", FOREIGN.values(), ids=FOREIGN)
def test_a_file_whose_statistics_say_nothing_may_hold_any_key(stats: str | None, others: int) -> None:
    odd = data_file("odd")
    odd.add["stats"] = stats
    if stats is None:
        del odd.add["stats"]
    kept = [holding(str(n), c=pa.array([n, n])) for n in range(others)]
    found = candidate_files(index_of(odd, *kept), pa.table({"c": pa.array([50, 10**6])}))
    assert [file.path for file in found] == ["odd", *(["50"] if others else [])]


@pytest.mark.parametrize("others", [0, 100])
def test_bounds_as_spark_writes_them_are_understood(others: int) -> None:
    """Decimals with fewer digits, 32-bit numbers in few digits, times with an offset and without microseconds."""
    zone = pa.timestamp("us", "UTC")
    columns = {
        "d": (pa.decimal128(12, 4), "1.5", "20", Decimal("1.5"), Decimal("1.4999")),
        "f": (pa.float32(), "0.1", "1.1", 1.1, 1.2),
        "t": (
            zone,
            '"2024-01-01T00:00:00.000-08:00"',
            '"2024-01-01T00:00:00.001-08:00"',
            dt.datetime(2024, 1, 1, 8, 0, 0, 1999, dt.UTC),
            dt.datetime(2024, 1, 1, 8, 0, 0, 2000, dt.UTC),
        ),
    }
    for kind, low, high, inside, outside in columns.values():
        stats = f'{{"numRecords":1,"minValues":{{"c":{low}}},"maxValues":{{"c":{high}}},"nullCount":{{"c":0}}}}'
        index = index_of(*(data_file(str(n), stats) for n in range(others + 1)))
        assert len(candidate_files(index, pa.table({"c": pa.array([inside], kind)}))) == others + 1
        assert candidate_files(index, pa.table({"c": pa.array([outside], kind)})) == []


def test_a_file_of_nulls_only_holds_no_other_key() -> None:
    index = index_of(holding("nulls", c=pa.array([None, None], pa.int64())), holding("values", c=pa.array([1, 2])))
    assert [f.path for f in candidate_files(index, pa.table({"c": pa.array([2], pa.int64())}))] == ["values"]
    assert [f.path for f in candidate_files(index, pa.table({"c": pa.array([None], pa.int64())}))] == ["nulls"]


def test_not_a_number_as_a_key_is_looked_for_in_every_file() -> None:
    index = index_of(holding("a", c=pa.array([1.0])), holding("b", c=pa.array([2.0])))
    assert len(candidate_files(index, pa.table({"c": [math.nan]}))) == 2


def test_text_cut_by_another_writer_is_never_taken_for_whole() -> None:
    """Spark ends an upper bound that it has cut with the last character of all."""
    text = "\U0001f389" * 40
    stats = json.dumps({"minValues": {"c": text[:32]}, "maxValues": {"c": text[:32] + "\U0010ffff"}})
    index = index_of(data_file("cut", stats), holding("other", c=pa.array(["a", "b"])))
    assert [f.path for f in candidate_files(index, pa.table({"c": [text]}))] == ["cut"]
