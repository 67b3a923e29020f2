"""A batch's keys, column by column, in the form in which files' bounds are compared with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replicator_target_delta.file_index.sort_words import Words, to_words

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
_MANY: Final = 1 << 16  # of so many keys the first word must do


@dataclass(frozen=True, slots=True)
class Ordered:
    """Values in ascending order.

    Attributes:
        words: Of each value; of very many values only the first.
        indexes: Which value it is.
    """

    words: Words
    indexes: Int64s


class KeyColumn:
    """One column of the keys of a batch; used by one thread.

    Args:
        field: The column.
        values: Its values.

    Attributes:
        size: How many values are not NULL.
        has_null: Whether one is NULL.
        has_nan: Whether one is NaN, which bounds say nothing about.
    """

    def __init__(self, field: pa.Field, values: pa.Array) -> None:
        self.field = field
        self._values = values
        self.size = len(values) - values.null_count
        self.has_null = values.null_count > 0
        self.has_nan = bool(pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py())
        self._ordered: dict[tuple[bytes, int], Ordered] = {}
        self._unordered: dict[tuple[bytes, int], tuple[Words, Bools]] = {}

    def ordered(self, prefix: bytes, width: int) -> Ordered:
        """The values that begin with `prefix`, by the `width` words after it."""
        form = prefix, width
        if form not in self._ordered:
            chosen = np.flatnonzero(self._fits(prefix))
            words = to_words(self._values.take(pa.array(chosen)), len(prefix), width)
            words = words[:, :1] if len(words) > _MANY else words
            order = np.argsort(words[:, 0], kind="stable") if words.shape[1] == 1 else np.lexsort(words.T[::-1])
            self._ordered[form] = Ordered(words[order], chosen[order])
        return self._ordered[form]

    def unordered(self, prefix: bytes, width: int) -> tuple[Words, Bools]:
        """The words of all values after `prefix`, and which of the values begin with it."""
        form = prefix, width
        if form not in self._unordered:
            self._unordered[form] = to_words(self._values, len(prefix), width), self._fits(prefix)
        return self._unordered[form]

    def _fits(self, prefix: bytes) -> Bools:
        fits = self._values.is_valid()
        if prefix:
            fits = pc.and_(fits, pc.fill_null(pc.starts_with(self._values.cast(pa.binary()), pattern=prefix), False))
        found: Bools = fits.to_numpy(zero_copy_only=False)
        return found
