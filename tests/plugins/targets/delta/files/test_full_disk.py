"""A full disk is an error that names the folder; once there is space the batch is whole, and nothing is there twice."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from replicator_sdk.errors import RetryableError
from replicator_target_delta.consumer import DeltaConsumer
from replicator_target_delta.files.storage import Storage
from tests.plugins.targets.changes import TABLE, batch, insert, row
from tests.plugins.targets.delta.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 1 MiB."""
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", path], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("may not mount here")
    yield path
    subprocess.run(["umount", "-l", path], check=True)


def fill(disk: Path, *, left: int = 0) -> Path:
    """Leave so many bytes of space."""
    ballast = disk / "ballast"
    with contextlib.suppress(OSError), ballast.open("ab", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    with ballast.open("rb+") as file:
        file.truncate(max(0, ballast.stat().st_size - left))
    return ballast


def apply(consumer: DeltaConsumer, numbers: range) -> None:
    for number in numbers:
        consumer.apply_batch(batch(number, [insert(row(number))]))


def test_a_file_that_finds_no_space_names_its_folder(small_disk: Path) -> None:
    ballast = fill(small_disk)
    full = f"RPL-4410: no space left at {small_disk}: 0 bytes are free.*free space there"
    with pytest.raises(RetryableError, match=full), Storage(str(small_disk)).open_output("part.parquet") as file:
        file.write(b"x" * 100_000)
    ballast.unlink()
    with Storage(str(small_disk)).open_output("part.parquet") as file:
        file.write(b"x" * 100_000)


@pytest.mark.parametrize("left", [0, 8192])
def test_a_batch_goes_on_once_there_is_space(small_disk: Path, spark: SparkSession, left: int) -> None:
    """Without any space its data file fails, with a little the commit."""
    lake = Lake(small_disk / "lake", spark)
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1))]))
    ballast = fill(small_disk, left=left)
    with pytest.raises(RetryableError, match=f"RPL-4410: no space left at {small_disk}/lake"):
        apply(consumer, range(2, 20))
    ballast.unlink()
    done = len(lake.rows(TABLE))
    apply(consumer, range(done + 1, 21))
    assert sorted(r["id"] for r in lake.rows(TABLE)) == list(range(1, 21))
