"""A full folder of spilled transactions is named, waited for, and costs no change."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from replicator_runtime.engine.batching.batching import Batcher
from replicator_runtime.engine.batching.sequencer import CommitMark
from replicator_runtime.engine.run_state.error_policy import Verdict, verdict
from replicator_runtime.engine.tables.table_watermark import TableWatermark
from replicator_sdk import Position
from replicator_sdk.errors import RetryableError
from tests.runtime.engine.log_model import Place, batch, commits, table, values

TABLE = table("a")
ROWS = 5000


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


def _batcher(folder: Path) -> Batcher:
    watermarks = {TABLE.table: TableWatermark(Position(Place(0)))}
    return Batcher((Place(0), 0), watermarks, generation=1, epoch=1, spill_bytes=0, spill_folder=str(folder))


def _gather(batcher: Batcher) -> list[int]:
    """The values of one transaction that is spilled."""
    for start in range(0, ROWS, 100):
        numbers = list(range(start, start + 100))
        batcher.add(batch(TABLE, numbers, numbers))
    batcher.commit(CommitMark(commits([ROWS], 1), Place(0), ROWS))
    [item] = batcher.take()
    found = [int(value) for value in values(item.changes)]
    item.close()
    return found


def test_a_full_folder_is_named_and_the_transaction_is_whole_once_there_is_space(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * (1 << 20))
    batcher = _batcher(small_disk)
    with pytest.raises(RetryableError, match=r"RPL-9016.*bytes.*TMPDIR") as caught:
        _gather(batcher)
    assert str(small_disk) in caught.value.message
    assert verdict(caught.value, isolate=True) is Verdict.RETRY
    batcher.close()  # what could not be written does not fail a second time
    ballast.unlink()
    again = _batcher(small_disk)
    assert _gather(again) == list(range(ROWS))
    again.close()


def test_another_fault_of_the_folder_keeps_its_own_words(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        _gather(_batcher(tmp_path / "gone"))
