"""Copies read no more rows than allowed, on average, and as many when they could read more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from replicator_runtime.engine.snapshot.throttle import Throttle
from tests.runtime.engine.in_memory_target import InMemoryConsumer
from tests.runtime.engine.test_run import Shop, fill, shop

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from replicator_sdk import ChunkReader, SnapshotChunk, TableSchema

__all__ = ["shop"]


class Copying:
    """A clock, and copies that read a chunk whenever the throttle lets them; each chunk takes a second."""

    def __init__(self, rate: float) -> None:
        self.now = 1000.0
        self.began = self.now
        self.rows = 0
        self.throttle = Throttle(rate, lambda: self.now)

    def read(self, rows: int, copies: int = 1) -> None:
        self.now += self.throttle.delay()
        began = self.now
        self.now += 1.0
        for _ in range(copies):
            self.throttle.took(rows, began)
            self.rows += rows

    @property
    def allowed_at(self) -> float:
        """Seconds from the beginning until more may be read."""
        return max(0.0, self.now + self.throttle.delay() - self.began)


@pytest.mark.parametrize("copies", [1, 4])
def test_the_average_is_the_limit(copies: int) -> None:
    copying = Copying(rate=100)
    for rows in (500, 1, 900, 250, 700):
        copying.read(rows, copies)
    assert copying.allowed_at == pytest.approx(copying.rows / 100, abs=1.1)


def test_time_without_copies_is_not_made_up_for() -> None:
    copying = Copying(rate=100)
    copying.read(500)
    copying.now += 3600
    copying.read(500)
    assert copying.throttle.delay() == pytest.approx(5 - 1 - 1, abs=0.1)


def test_without_a_limit_no_one_waits() -> None:
    throttle = Throttle(None)
    throttle.took(10**9, 0.0)
    assert (throttle.is_on, throttle.delay()) == (False, 0.0)


def test_a_throttled_run_reads_a_chunk_at_a_time_and_waits_for_its_rows(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the time of each chunk, no more rows were read before than the seconds allow."""
    fill(shop)
    shop.document["stages"][0]["plugin"]["properties"]["chunkRows"] = 5
    shop.document["parallelism"] = {"tables": 1}
    shop.document["snapshot"] = {"maxRowsPerSecond": 40}
    shop.document["tables"] = [{"table": "customers"}]
    chunks: list[int] = []
    times: list[float] = []
    load: Callable[..., int] = InMemoryConsumer.load_chunks
    took = Throttle.took

    def loading(
        consumer: InMemoryConsumer, schema: TableSchema, at: str, wave: Sequence[SnapshotChunk], read: ChunkReader
    ) -> int:
        chunks.append(len(wave))
        return load(consumer, schema, at, wave, read)

    def taking(throttle: Throttle, rows: int, began: float) -> None:
        times.append(began)
        took(throttle, rows, began)

    monkeypatch.setattr(Throttle, "took", taking)

    monkeypatch.setattr(InMemoryConsumer, "load_chunks", loading)
    shop.run()
    shop.assert_equal("customers")
    assert chunks == [1] * len(times)
    assert len(chunks) > 3
    for rank, at in enumerate(times[1:-1], 1):
        assert rank * 5 <= (at - times[0]) * 40 + 5
