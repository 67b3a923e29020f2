"""Values as places in a window of the log, and as matrices of bytes, without a loop over values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replicator_sdk.authoring.arrow_buffers import Bools, Bytes, Int64s, binary_ranges, joined_bytes, validity


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
        if self.present.all():
            start, end = self.start, self.start + self.length
        else:
            start = np.clip(self.start, 0, len(self.data))
            end = np.where(self.present, start + self.length, start)
        return binary_ranges(pa.py_buffer(np.ascontiguousarray(self.data)), start, end, present=self.present)

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


def matrix_of(raw: pa.BinaryArray, width: int) -> Bytes:
    """The values as a matrix with a row of `width` bytes each, NULL as zeros.

    Raises:
        ValueError: When a value has another width.
    """
    octets, bounds = joined_bytes(raw)
    present = validity(raw)
    if (np.diff(bounds)[present] != width).any():
        raise ValueError(f"not {width} bytes wide")
    if present.all():
        return octets.reshape(len(raw), width)
    matrix = np.zeros((len(raw), width), np.uint8)
    matrix[present] = octets.reshape(-1, width)
    return matrix
