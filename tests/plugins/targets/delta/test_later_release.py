"""A table that a later release wrote, in a form that this one does not know, is refused before anything is written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from replicator_sdk import target
from replicator_sdk.errors import NeedsUserError
from tests.plugins.targets.changes import KEYED, TABLE, batch, insert, row
from tests.plugins.targets.delta.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_table_of_a_later_release_is_refused(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(tmp_path, spark)
    with monkeypatch.context() as later:
        later.setattr(target, "PROGRESS_FORM", 2)
        later.setattr(target, "release", lambda: "9.1.0")
        lake.consumer().apply_batch(batch(1, [insert(row(1))]))
    version, consumer = lake.version(TABLE), lake.consumer(epoch=2)
    with pytest.raises(NeedsUserError, match=r"RPL-7161.*form 2.*replicator==9\.1\.0"):
        consumer.progress(TABLE)
    with pytest.raises(NeedsUserError, match="RPL-7161"):
        consumer.apply_batch(batch(2, [insert(row(2))], epoch=2))
    assert lake.version(TABLE) == version
    assert [found["id"] for found in lake.read_table(KEYED)] == [1]
    consumer.stop()
