"""Finds keys with changes in several partitions of one window: partitions have no common order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.event import DMLOperation
from replicator_sdk.net_change import encode_rows
from replicator_source_kafka.formats.format import Part


def keys_in_several(parts: Sequence[Part]) -> int:
    """How many keys more than one of the parts has changes of; each is of another partition, all are of one table with a key."""
    if len(parts) < 2:
        return 0
    keys = [_keys(part) for part in parts]
    codes, count = encode_rows([pa.concat_arrays(pieces) for pieces in zip(*keys, strict=True)])
    part_of = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    first = np.zeros(count, np.int64)
    first[codes[::-1]] = part_of[::-1]  # of equal indexes numpy keeps the last assignment
    return len(np.unique(codes[part_of != first[codes]]))


def _keys(part: Part) -> list[pa.Array]:
    """The key columns of each change: of the row it writes, or deletes."""
    names = part.schema.primary_key
    written = [pc.struct_field(part.row, name) for name in names]
    if part.before is None:
        return written
    deletes = pc.equal(part.op, int(DMLOperation.DELETE))
    gone = [pc.struct_field(part.before, name) for name in names]
    return [pc.if_else(deletes, old, new) for old, new in zip(gone, written, strict=True)]
