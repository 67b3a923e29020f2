"""Decides from several comparisons of a table, none of which is at exactly one position, which of its keys differ.

The source's rows are of a position, and the target's have every change up to there and perhaps later ones. So a key that
differs once may only have changed in between. A key is

* equal when one comparison finds it equal;
* different when a comparison at exactly one position finds it so, or when it differs in the same way in as many comparisons
  one after the other as it needs, that is, while neither side changed. The row at the target says by its version whether it was written between
  two of them; then two are enough. Three are needed where the target has no row that could say it;
* undecided otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

KEY: Final = np.dtype([("k1", "<i8"), ("k2", "<i8")])
OBSERVED: Final = np.dtype(
    [*((name, "<i8") for name in ("k1", "k2", "missing", "surplus", "different", "state")), ("versioned", "?")]
)
"""A key that differs: its hash, how many rows the target lacks, has too many, and has with other values; a hash of what both
sides have of it, the versions of the target's rows included; and whether each of these has a version."""
Observed = Any
"""A NumPy array of `OBSERVED`; each key once."""
_WITH_VERSION: Final = 2
_WITHOUT: Final = 3


class Verdict:
    """What the comparisons of one table have shown so far; used by one thread."""

    def __init__(self) -> None:
        self._pending: Observed | None = None
        self._times: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self._confirmed: list[Observed] = []

    def take(self, observed: Observed, *, exact: bool) -> None:
        """Take the keys that the next comparison found different.

        Args:
            observed: At the first comparison all keys of the table that differ, then those among `pending`.
            exact: Whether both sides were read at exactly one position.
        """
        times = np.ones(len(observed), np.int64)
        if self._pending is not None:
            _, before, now = np.intersect1d(keys_of(self._pending), keys_of(observed), return_indices=True)
            observed = observed[now]
            same = self._pending["state"][before] == observed["state"]
            times = np.where(same, self._times[before] + 1, 1)
        needed = np.where(observed["versioned"], _WITH_VERSION, _WITHOUT)
        certain = (times >= needed) | exact
        self._confirmed.append(observed[certain])
        self._pending, self._times = observed[~certain], times[~certain]

    @property
    def pending(self) -> npt.NDArray[Any]:
        """The keys, as arrays of `KEY`, that differed in every comparison and are not decided."""
        return np.zeros(0, KEY) if self._pending is None else keys_of(self._pending)

    @property
    def confirmed(self) -> Observed:
        """The keys that differ."""
        return np.concatenate([np.zeros(0, OBSERVED), *self._confirmed])

    @property
    def confirmed_keys(self) -> npt.NDArray[Any]:
        """The same, as arrays of `KEY`."""
        return keys_of(self.confirmed)


def of_each_kind(observed: Observed, count: int) -> Observed:
    """Up to `count` of the keys: the first of the missing, the surplus and the different, as many of each as there are."""
    rank = np.full(len(observed), len(observed))
    for kind in ("missing", "surplus", "different"):
        places = np.flatnonzero(observed[kind])
        rank[places] = np.minimum(rank[places], np.arange(len(places)))
    return observed[np.sort(np.argsort(rank, kind="stable")[:count])]


def keys_of(observed: Observed) -> npt.NDArray[Any]:
    """The keys alone, as an array of `KEY`."""
    keys = np.zeros(len(observed), KEY)
    keys["k1"], keys["k2"] = observed["k1"], observed["k2"]
    return keys
