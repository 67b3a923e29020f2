"""Converts numpy arrays to Arrow and back, without a loop over values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Bytes = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Cells:
    """The values of one column, as positions in a window of the log.

    Attributes:
        data: The window.
        start: Where each value begins, after a length prefix.
        length: How many bytes it has.
        present: Whether it is not NULL; start and length of an absent value are anything.
    """

    data: Bytes
    start: Int64s
    length: Int64s
    present: Bools

    def binary(self) -> pa.BinaryArray:
        """The values as they are."""
        count = len(self.start)
        # Value and gap in turns: the values are then every second element, which `take` copies in C.
        offsets = np.empty(2 * count + 2, np.int64)
        offsets[0], offsets[-1] = 0, len(self.data)
        offsets[1:-1:2] = np.where(self.present, self.start, 0)
        offsets[2:-1:2] = np.where(self.present, self.start + self.length, 0)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(self.data))]
        laid_out = pa.Array.from_buffers(pa.large_binary(), 2 * count + 1, buffers)
        taken = laid_out.take(pa.array(np.arange(1, 2 * count + 1, 2))).cast(pa.binary())
        return with_nulls(taken, self.present)

    def numbers(self, dtype: str) -> npt.NDArray[np.generic]:
        """The values as numbers of `dtype`, which says their width and byte order; absent ones are anything.

        Raises:
            ValueError: When a value has another width.
        """
        width = np.dtype(dtype).itemsize
        if (self.length[self.present] != width).any():
            raise ValueError(f"not {width} bytes wide")
        data = np.ascontiguousarray(self.data)
        if len(data) < width:
            data = np.zeros(width, np.uint8)
        start = np.where(self.present, self.start, 0)
        # A view with a stride of one byte: indexing it copies whole numbers.
        view = np.ndarray((len(data) - width + 1,), np.dtype(dtype), data, strides=(1,))
        return view[start]

    def octets(self, width: int) -> Bytes:
        """The values as a matrix with a row of `width` bytes each.

        Raises:
            ValueError: When a value has another width.
        """
        return self.numbers(f"V{width}").view(np.uint8).reshape(len(self.start), width)

    def part(self, offset: int, width: int) -> Cells:
        """The bytes from `offset` of each value, `width` of them.

        Raises:
            ValueError: When a value is not that long.
        """
        if (self.length[self.present] < offset + width).any():
            raise ValueError(f"shorter than {offset + width} bytes")
        return Cells(self.data, self.start + offset, np.full_like(self.length, width), self.present)


def bitmap(present: Bools) -> pa.Buffer | None:
    """Arrow's validity bits; None when nothing is NULL."""
    return None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))


def with_nulls(values: pa.Array, present: Bools) -> pa.Array:
    """`values`, which has no NULL and no offset, with those not present made NULL."""
    return pa.Array.from_buffers(values.type, len(values), [bitmap(present), *values.buffers()[1:]])


def fixed(values: npt.NDArray[np.generic], kind: pa.DataType, present: Bools) -> pa.Array:
    """An array of a fixed-width type from its raw numbers."""
    return pa.Array.from_buffers(kind, len(present), [bitmap(present), pa.py_buffer(np.ascontiguousarray(values))])


def sized(kind: pa.DataType, octets: Bytes, lengths: Int64s, present: Bools) -> pa.Array:
    """A binary or string array from all values' bytes one after the other; absent values have the length 0.

    Strings are not validated: the caller made the bytes, or validates.
    """
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    buffers = [bitmap(present), pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(octets))]
    return pa.Array.from_buffers(kind, len(lengths), buffers)


def lines(characters: Bytes, keep: Bools | None, present: Bools) -> pa.StringArray:
    """Strings out of a matrix of ASCII characters, one row each; only the characters under `keep` stay."""
    keep = np.ones(characters.shape, np.bool_) if keep is None else keep
    keep = keep & present[:, None]
    return sized(pa.string(), characters[keep], keep.sum(axis=1), present)


def write_digits(characters: Bytes, at: int, width: int, values: Int64s) -> None:
    """Write `values` into a matrix of characters as `width` decimal digits from column `at` on."""
    for place in range(at + width - 1, at - 1, -1):
        values, digit = np.divmod(values, 10)
        characters[:, place] = digit + ord("0")


def validity(raw: pa.Array) -> Bools:
    """Which values are not NULL."""
    if not raw.null_count:
        return np.ones(len(raw), np.bool_)
    return np.asarray(pc.is_valid(raw).to_numpy(zero_copy_only=False))


def octets_of(raw: pa.BinaryArray) -> tuple[Bytes, Int64s]:
    """All values' bytes one after the other, and the values' lengths; NULL has the length 0."""
    plain = raw.fill_null(b"") if raw.null_count else raw
    if not len(plain):
        return np.zeros(0, np.uint8), np.zeros(0, np.int64)
    _, offsets, data = plain.buffers()
    bounds = np.frombuffer(offsets, np.int32)[plain.offset : plain.offset + len(plain) + 1].astype(np.int64)
    octets = np.frombuffer(data or b"", np.uint8)[bounds[0] : bounds[-1]]
    return octets, np.diff(bounds)


def matrix_of(raw: pa.BinaryArray, width: int) -> Bytes:
    """The values as a matrix with a row of `width` bytes each, NULL as zeros.

    Raises:
        ValueError: When a value has another width.
    """
    octets, lengths = octets_of(raw)
    present = validity(raw)
    if (lengths[present] != width).any():
        raise ValueError(f"not {width} bytes wide")
    if present.all():
        return octets.reshape(len(raw), width)
    matrix = np.zeros((len(raw), width), np.uint8)
    matrix[present] = octets.reshape(-1, width)
    return matrix
