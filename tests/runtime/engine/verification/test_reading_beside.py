"""The source's rows are read while the run is waited for, and no longer than the wait can end well."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from replicator_runtime.engine.verification.reading_beside import read_beside

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from pyspark.sql import SparkSession


def test_both_go_on_at_one_time(spark: SparkSession) -> None:
    meeting = threading.Barrier(2, timeout=120)

    def read() -> int:
        meeting.wait()
        return spark.range(3).count()

    def wait() -> str:
        meeting.wait()
        return "there"

    assert read_beside(read, wait, spark) == (3, "there")


def test_a_failed_wait_ends_the_jobs_that_read(spark: SparkSession) -> None:
    begun = threading.Event()

    def slow(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        for batch in batches:
            time.sleep(600)
            yield batch

    def read() -> int:
        begun.set()
        return spark.range(1).mapInArrow(slow, "id long").count()

    def wait() -> None:
        begun.wait(120)
        while not spark.sparkContext.statusTracker().getActiveJobsIds():
            time.sleep(0.05)
        raise LookupError

    began = time.monotonic()
    with pytest.raises(LookupError):
        read_beside(read, wait, spark)
    assert time.monotonic() - began < 300


def test_what_fails_to_read_is_raised_after_the_wait(spark: SparkSession) -> None:
    waited = threading.Event()

    def read() -> int:
        return int("no number")

    with pytest.raises(ValueError, match="no number"):
        read_beside(read, waited.set, spark)
    assert waited.is_set()
