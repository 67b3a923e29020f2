"""Which files may hold the same keys, by the ranges of their keys."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]


def deepest(low: Int64s, high: Int64s) -> Int64s:
    """The files that may all hold one key, at a key that the most files may hold: their indexes, ascending.

    Args:
        low: Of each file the number of its smallest key, numbers being in the order of the keys.
        high: The same of its largest key.
    """
    if not len(low):
        return np.empty(0, np.int64)
    starts = np.sort(low)
    depths = np.arange(1, len(low) + 1) - np.searchsorted(np.sort(high), starts, "left")
    place = starts[int(np.argmax(depths))]
    return np.flatnonzero((low <= place) & (place <= high)).astype(np.int64)


def narrowest(low: Int64s, high: Int64s, count: int) -> Int64s:
    """The indexes of the files of the narrowest ranges, `count` of them, the narrowest first."""
    return np.argsort(high - low, kind="stable")[:count].astype(np.int64)
