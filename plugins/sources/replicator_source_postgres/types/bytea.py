"""Parses bytea in its hex form."""

from __future__ import annotations

import binascii

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def unhex(text: pa.StringArray) -> pa.BinaryArray:
    r"""The bytes of `\xDEADBEEF` values, with NULL.

    Raises:
        ArrowInvalid: When a value is not in hex form (`bytea_output` is part of the session settings).
    """
    present = pa.concat_arrays([text.drop_null()])
    if pc.all(pc.starts_with(present, "\\x")).as_py() is False:
        raise pa.ArrowInvalid("not in hex form")
    _, offsets, data = present.buffers()
    bounds = np.frombuffer(offsets, np.int32)[present.offset : present.offset + len(present) + 1]
    lengths = np.diff(bounds) - 2
    if (lengths & 1).any():
        raise pa.ArrowInvalid("half a byte")
    digits = np.frombuffer(data or b"", np.uint8)[bounds[0] : bounds[-1]]
    keep = np.ones(len(digits), np.bool_)
    first = bounds[:-1] - bounds[0]
    keep[first] = keep[first + 1] = False
    try:
        octets = binascii.unhexlify(digits[keep].tobytes())
    except binascii.Error:
        raise pa.ArrowInvalid("not a hex digit") from None
    valid = pc.is_valid(text).to_numpy(zero_copy_only=False)
    sizes = np.zeros(len(text) + 1, np.int32)
    sizes[1:][valid] = lengths // 2
    bitmap = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(
        pa.binary(), len(text), [bitmap, pa.py_buffer(np.cumsum(sizes, dtype=np.int32)), pa.py_buffer(octets)]
    )
