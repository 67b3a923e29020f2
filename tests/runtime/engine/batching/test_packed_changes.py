"""What is refused of changes is not lost on disk, and follows them where some are left out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from replicator_runtime.engine.apply.operation_filter import keep_operations
from replicator_runtime.engine.batching.packed_changes import pack, unpack
from replicator_sdk import DMLOperation, Refusal
from tests.runtime.engine.log_model import batch, table

T = table("t")


def test_refused_values_are_unpacked_as_they_were_packed() -> None:
    found = replace(batch(T, [1, 2, 3], [1, 2, 3]), sequence_numbers=np.array([1, 2, 3], np.int64))
    name = T.names[0]
    marked = replace(found, refused={name: Refusal(pa.array([False, True, False]), "RPL-1", "what")})
    for given in (found, marked, marked.slice(1, 3)):
        packed, flags = pack(given)
        again = unpack(T, packed, flags)
        assert {n: (r.indexes.tolist(), r.code, r.what) for n, r in again.refused.items()} == {
            n: (r.indexes.tolist(), r.code, r.what) for n, r in given.refused.items()
        }


def test_refused_values_of_operations_that_are_left_out_are_no_more() -> None:
    found = batch(T, [1, 2, 3], [1, 2, 3])
    operations = pa.array([int(DMLOperation.INSERT), int(DMLOperation.UPDATE), int(DMLOperation.INSERT)], pa.int8())
    first, second = (Refusal(pa.array(mask), "RPL-1", "what") for mask in ([True, False, True], [False, True, False]))
    marked = replace(
        found, op=operations, refused={T.names[0]: first, T.names[-1]: second} if len(T.names) > 1 else {"x": first}
    )
    kept = keep_operations(marked, {int(DMLOperation.UPDATE)})
    assert kept is not None
    assert [r.indexes.tolist() for r in kept.refused.values()] == [[0, 1]]
