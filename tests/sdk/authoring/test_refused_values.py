"""Values that cannot be converted are found by column, and all others are converted as before."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from replicator_sdk.authoring.refused_values import convert_marked
from replicator_sdk.errors import DataError


class Numbers:
    """Converts text to numbers; counts how often."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, values: pa.Array) -> pa.Array:
        self.calls += 1
        try:
            return values.cast(pa.int64())
        except pa.ArrowInvalid:
            raise DataError("column 'n' holds no number", code="RPL-1") from None


@pytest.mark.parametrize("bad", [[], [0], [9], [3, 4], list(range(10))])
def test_exactly_the_values_that_cannot_be_converted_are_marked(bad: list[int]) -> None:
    texts = [None if n == 5 and n not in bad else "x" if n in bad else str(n) for n in range(10)]
    values, refusal = convert_marked(Numbers(), pa.array(texts, pa.string()).slice(0), pa.int64())
    assert values.to_pylist() == [None if n in bad or n == 5 else n for n in range(10)]
    assert (refusal is None) == (not bad)
    assert refusal is None or refusal.indexes.tolist() == bad
    assert refusal is None or (refusal.code, refusal.what) == ("RPL-1", "column 'n' holds no number")


def test_few_values_among_many_take_few_conversions() -> None:
    texts = [str(n) for n in range(100_000)]
    for n in random.Random(1).sample(range(100_000), 3):
        texts[n] = "x"
    convert = Numbers()
    _, refusal = convert_marked(convert, pa.array(texts), pa.int64())
    assert refusal is not None
    assert refusal.mask.true_count == 3
    assert convert.calls < 3 * 2 * 18


def test_a_lenient_conversion_is_asked_once_and_need_not_be_able_to() -> None:
    def lenient(values: pa.Array) -> pa.Array:
        return pa.array([int(v) if v is not None and v.isdigit() else None for v in values.to_pylist()], pa.int64())

    def refuses(values: pa.Array) -> pa.Array:
        raise DataError("no", code="RPL-2")

    texts = pa.array(["1", "x", None])
    for function in (lenient, refuses):
        values, refusal = convert_marked(Numbers(), texts, pa.int64(), function)
        assert refusal is not None
        assert (values.to_pylist(), refusal.indexes.tolist()) == ([1, None, None], [1])


@pytest.mark.parametrize("is_lenient", [False, True])
def test_the_reason_names_what_each_of_the_values_may_be(is_lenient: bool) -> None:
    def convert(values: pa.Array) -> pa.Array:
        for what in ("infinity", "-infinity"):
            if what in values.to_pylist():
                raise DataError(f"it holds {what}", code="RPL-3")
        return values.cast(pa.int64())

    def lenient(values: pa.Array) -> pa.Array:
        return pa.array([None if "infinity" in v else int(v) for v in values.to_pylist()], pa.int64())

    texts = pa.array(["1", "infinity", "2", "-infinity", "infinity"])
    _, refusal = convert_marked(convert, texts, pa.int64(), lenient if is_lenient else None)
    assert refusal is not None
    assert (refusal.indexes.tolist(), refusal.what) == ([1, 3, 4], "it holds infinity; or it holds -infinity")
