"""Parses bytea in its hex form."""

from __future__ import annotations

import binascii

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.authoring.arrow_buffers import bounds_of, joined_bytes, validity, variable_width


def unhex(text: pa.StringArray) -> pa.BinaryArray:
    r"""The bytes of `\xDEADBEEF` values, with NULL.

    Raises:
        ArrowInvalid: When a value is not in hex form (`bytea_output` is part of the session settings).
    """
    present = text.drop_null()
    if pc.all(pc.starts_with(present, "\\x")).as_py() is False:
        raise pa.ArrowInvalid("not in hex form")
    digits, bounds = joined_bytes(present)
    lengths = np.diff(bounds) - 2
    if (lengths & 1).any():
        raise pa.ArrowInvalid("half a byte")
    keep = np.ones(len(digits), np.bool_)
    first = bounds[:-1]
    keep[first] = keep[first + 1] = False
    try:
        octets = np.frombuffer(binascii.unhexlify(digits[keep].tobytes()), np.uint8)
    except binascii.Error:
        raise pa.ArrowInvalid("not a hex digit") from None
    valid = validity(text)
    return variable_width(pa.binary(), octets, bounds_of(lengths // 2, valid), valid)
