"""A table that is read at a pace is read whole, once, in parts, and no part before the rows of those before it were allowed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from replicator_runtime.engine.snapshot.throttle import Throttle
from replicator_runtime.engine.verification.checksums import Sums
from replicator_runtime.engine.verification.pace import PARTS_AT_MOST, read_in_parts

_CHUNK_ROWS = 10


@given(count=st.integers(0, 500), rate=st.floats(1, 1000), counted=st.booleans())
def test_each_chunk_is_in_one_part_and_rows_come_at_the_rate(count: int, rate: float, counted: bool) -> None:
    now = 0.0
    begun: list[tuple[float, int]] = []
    throttle = Throttle(rate, lambda: now)

    def wait(seconds: float) -> None:
        nonlocal now
        now += seconds

    def read(chunks: tuple[int, ...]) -> tuple[int, ...]:
        begun.append((now, len(chunks)))
        return chunks

    parts = read_in_parts(
        tuple(range(count)),
        read,  # type: ignore[arg-type]
        lambda part: _CHUNK_ROWS * len(part) if counted else None,
        _CHUNK_ROWS * count,
        throttle,
        wait,
    )
    assert [chunk for part in parts for chunk in part] == list(range(count))
    assert 1 <= len(parts) <= PARTS_AT_MOST
    before = 0
    for at, chunks in begun:
        assert at >= before / rate - 1e-6
        before += _CHUNK_ROWS * chunks


def test_without_a_pace_all_is_read_at_once() -> None:
    assert read_in_parts(range(100), tuple, lambda _: None, 0, None, lambda _: None) == [tuple(range(100))]


@given(
    st.lists(
        st.dictionaries(st.integers(0, 3), st.tuples(st.integers(1, 5), st.integers(), st.integers()), max_size=4),
        min_size=1,
        max_size=5,
    )
)
def test_the_checksums_of_parts_are_those_of_the_whole(parts: list[dict[int, tuple[int, ...]]]) -> None:
    sums = Sums.of_parts([Sums(sum(bucket[0] for bucket in part.values()), part) for part in parts])
    for bucket in range(4):
        found = [part[bucket] for part in parts if bucket in part]
        whole = tuple(map(sum, zip(*found, strict=True)))
        assert sums.buckets.get(bucket, ()) == whole
    assert sums.rows == sum(bucket[0] for bucket in sums.buckets.values())
