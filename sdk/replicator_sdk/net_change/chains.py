"""What happens at each key, change by change: for targets that keep every version of a row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from replicator_sdk.batch import Int64s
from replicator_sdk.event import DMLOperation
from replicator_sdk.net_change.keys import Bools
from replicator_sdk.net_change.plan import History, KeyOutcome


@dataclass(frozen=True, slots=True)
class Chains:
    """The *records* of a run: at one key each, by key and in the order of the source. A change that moves a row has two, one at the key
    that the row leaves and one at its new key; each other change has one. A record ends the version of the record before it of its chain.

    Attributes:
        change: For each record the index of its change.
        chain: For each record the number of its key: ascending from 0, without gaps.
        opens: For each record whether it writes a row; else it takes one away.
        first: For each chain the index of its first record.
        fresh: For each chain whether the key was certainly not in the target before the run.
        places: For each chain the index of its key in `History.keys`.
    """

    change: Int64s
    chain: Int64s
    opens: Bools
    first: Int64s
    fresh: Bools
    places: Int64s

    @property
    def next(self) -> Int64s:
        """For each record the change of the next record of its chain; -1 for the last one."""
        following = np.full(len(self.change), -1, np.int64)
        same = self.chain[1:] == self.chain[:-1]
        following[:-1][same] = self.change[1:][same]
        return following


def follow_chains(history: History, outcome: KeyOutcome) -> Chains:
    """The chains of `history`.

    Args:
        history: The changes.
        outcome: Of its keys.
    """
    size, moved = len(history), outcome.moved
    codes = np.concatenate([outcome.key, outcome.left])
    times = np.concatenate([np.arange(size, dtype=np.int64) * 2 + 1, moved * 2])
    order = np.lexsort((times, codes))
    codes, times = codes[order], times[order]
    change, leaves = times // 2, times % 2 == 0
    starts = np.append(np.ones(min(1, len(codes)), np.bool_), codes[1:] != codes[:-1])
    first = np.flatnonzero(starts).astype(np.int64)
    arrives = history.op == DMLOperation.INSERT
    arrives[moved] = True
    places = change[first].copy()
    left = leaves[first]
    places[left] = size + np.searchsorted(history.with_old, places[left])
    return Chains(
        change=change,
        chain=np.cumsum(starts).astype(np.int64) - 1,
        opens=~leaves & (history.op[change] != DMLOperation.DELETE),
        first=first,
        fresh=~left & arrives[change[first]],
        places=places,
    )
