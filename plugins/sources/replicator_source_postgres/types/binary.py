"""bytea in its hex form."""

from __future__ import annotations

import binascii

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def unhex(text: pa.StringArray) -> pa.BinaryArray:
    r"""The bytes of `\xDEADBEEF` values, NULL kept.

    Raises:
        ArrowInvalid: When a value is not in hex form (`bytea_output` is part of the session settings).
    """
    if pc.all(pc.starts_with(text, "\\x")).as_py() is False:
        raise pa.ArrowInvalid("not in hex form")
    digits = pc.binary_slice(text.cast(pa.binary()), 2)
    digits = pa.concat_arrays([digits])
    _, offsets, data = digits.buffers()
    bounds = np.frombuffer(offsets, np.int32)[digits.offset : digits.offset + len(digits) + 1]
    if (np.diff(bounds) & 1).any():
        raise pa.ArrowInvalid("half a byte")
    first, last = int(bounds[0]), int(bounds[-1])
    try:
        octets = binascii.unhexlify(memoryview(data)[first:last]) if last > first else b""
    except binascii.Error:
        raise pa.ArrowInvalid("not a hex digit") from None
    halves = ((bounds - first) // 2).astype(np.int32)
    valid = pc.is_valid(text)
    return pa.Array.from_buffers(pa.binary(), len(digits), [_bitmap(valid), pa.py_buffer(halves), pa.py_buffer(octets)])


def _bitmap(valid: pa.BooleanArray) -> pa.Buffer:
    """A boolean array's bits from bit 0 on."""
    return pa.py_buffer(np.packbits(valid.to_numpy(zero_copy_only=False), bitorder="little"))
