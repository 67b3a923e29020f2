"""Columns on their way to Parquet: what is nulled is gone, whatever slice of an array it was."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from replicator_target_bigquery.batch.staging_rows import BatchStamp, staged_batches
from replicator_target_bigquery.load.parquet import ParquetFile
from replicator_target_bigquery.schema.encoding import nulled
from tests.plugins.targets.bigquery.support.changes import KEYED, batch, delete, insert, row

_VALUES = {
    pa.int64(): st.integers(-5, 5),
    pa.string(): st.text(max_size=3),
    pa.bool_(): st.booleans(),
    pa.decimal128(9, 2): st.decimals(-9, 9, places=2),
    pa.list_(pa.int64()): st.lists(st.integers(0, 3), max_size=2),
    pa.struct([("x", pa.int64())]): st.fixed_dictionaries({"x": st.integers(0, 3)}),
}


@settings(deadline=None)
@given(st.data(), st.sampled_from(list(_VALUES)), st.integers(0, 20))
def test_places_are_nulled_and_no_others(data: st.DataObject, kind: pa.DataType, skipped: int) -> None:
    values = data.draw(st.lists(st.none() | _VALUES[kind], min_size=skipped, max_size=40))
    column = pa.array(values, kind).slice(skipped)
    where = np.array(data.draw(st.lists(st.booleans(), min_size=len(column), max_size=len(column))), np.bool_)
    made = nulled(column, where)
    made.validate(full=True)
    assert made.to_pylist() == [None if gone else value for gone, value in zip(where, column.to_pylist(), strict=True)]


def test_what_a_delete_happens_to_carry_is_not_in_the_file() -> None:
    """A DELETE's row is undefined, so nothing that a reader leaves there is loaded."""
    changes = batch(1, [insert(row(1, "kept")), delete({"id": 2})])
    (given_batch,) = changes.batches()
    rows = pa.array([row(1, "kept"), row(2, "leftover")], given_batch.row.type)
    object.__setattr__(given_batch, "row", rows)
    (staged,) = staged_batches(changes, {n: n for n in KEYED.names}, BatchStamp("x", 0))
    file = ParquetFile()
    file.add(staged)
    content = file.finish()
    assert b"leftover" not in content
    assert pq.read_table(io.BytesIO(content)).column("name").to_pylist() == ["kept", None]
