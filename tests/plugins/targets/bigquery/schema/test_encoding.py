"""Rows on their way to Parquet: undefined values are not written."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq

from replicator_target_bigquery.batch.staging_rows import BatchStamp, staged_batches
from replicator_target_bigquery.load.parquet import ParquetFile
from tests.plugins.targets.bigquery.support.changes import EXACT, KEYED, batch, delete, insert, row


def test_what_a_delete_happens_to_carry_is_not_in_the_file() -> None:
    """A DELETE's row is undefined, so nothing that a reader leaves there is loaded."""
    changes = batch(1, [insert(row(1, "kept")), delete({"id": 2})])
    (given_batch,) = changes.batches()
    rows = pa.array([row(1, "kept"), row(2, "leftover")], given_batch.row.type)
    object.__setattr__(given_batch, "row", rows)
    (staged,) = staged_batches(changes, {n: n for n in KEYED.names}, BatchStamp("x", 0), EXACT)
    file = ParquetFile()
    file.add(staged)
    content = file.finish()
    assert b"leftover" not in content
    assert pq.read_table(io.BytesIO(content)).column("name").to_pylist() == ["kept", None]
