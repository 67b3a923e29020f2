"""Reads one header of each record, for all records at once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from replicator_sdk.authoring.arrow_buffers import joined_bytes, validity
from replicator_source_kafka.record_batches.record_fields import slices, varints


def header(headers: pa.BinaryArray, name: bytes) -> pa.BinaryArray:
    """The value of the records' last header of that name; null where a record has none, or its value is null.

    Args:
        headers: See `Records.headers`.
        name: The header's key.
    """
    octets, bounds = joined_bytes(headers)
    start, length = np.zeros(len(headers), np.int64), np.full(len(headers), -1)
    records = np.flatnonzero(validity(headers))
    left, at = varints(octets, bounds[:-1][records])
    wanted = np.frombuffer(name, np.uint8)
    while len(records := records[left > 0]):  # one pass per header, for all records at once
        at, left = at[left > 0], left[left > 0]
        key_length, key = varints(octets, at)
        value_length, value = varints(octets, key + key_length)
        hit = np.flatnonzero(key_length == len(name))
        hit = hit[(octets[key[hit, None] + np.arange(len(name))] == wanted).all(axis=1)]
        start[records[hit]], length[records[hit]] = value[hit], value_length[hit]
        at, left = value + np.maximum(value_length, 0), left - 1
    return slices(pa.py_buffer(np.ascontiguousarray(octets)), start, length)
