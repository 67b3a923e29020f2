"""Where the value of a column that an UPDATE did not send comes from.

It is the value the same row had before: that of the change that last wrote it at the key before the UPDATE, and so on
back to a change that sent the column, or to the row the target holds since before the history.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from replicator_sdk.batch import Int64s
from replicator_sdk.errors import DataError
from replicator_sdk.event import DMLOperation
from replicator_sdk.net_change.keys import Bools
from replicator_sdk.net_change.plan import History, KeyOutcome

_NONE = -1  # the row is older than the history
_LOST = -2  # a DELETE or a move took the row away before the UPDATE


@dataclass(frozen=True, slots=True)
class Origins:
    """Where the written rows' missing values are.

    Attributes:
        source: Column → for each written row the index of the change that holds its value, or -1 where only the target
            has it; only columns that some written row's own change does not hold.
        target_rows: Ascending: indexes of the written rows that lack a value only the target has.
        target_key: For each of them, the index of the change whose key *before* it is the target row's key.
    """

    source: dict[str, Int64s]
    target_rows: Int64s
    target_key: Int64s


def find_origins(history: History, outcome: KeyOutcome, lost: Callable[[str, int], DataError]) -> Origins:
    """Trace every missing value of every written row.

    Args:
        history: The changes.
        outcome: The outcome of their keys.
        lost: Makes the error for a column and a change that needs a value of it that is gone.

    Raises:
        DataError: When the row was deleted before an UPDATE that needs a value of it.
    """
    written = outcome.written
    masks = {name: mask for name, mask in history.unchanged.items() if mask[written].any()}
    if not masks:
        return Origins({}, np.empty(0, np.int64), np.empty(0, np.int64))
    previous = _previous(history, outcome)
    source: dict[str, Int64s] = {}
    target_key = np.full(len(written), _NONE, np.int64)
    for name, mask in masks.items():
        root = _jump(mask, previous)[written]
        missing = mask[root]
        # A row that is deleted twice has nothing to lose: the second DELETE is kept like one of a row that the target has.
        gone = np.flatnonzero(missing & (previous[root] == _LOST) & (history.op[root] != DMLOperation.DELETE))
        if len(gone):
            raise lost(name, int(root[gone[0]]))
        target_key[missing] = root[missing]  # the same for every column: the row's first change in the history
        source[name] = np.where(missing, _NONE, root)
    target_rows = np.flatnonzero(target_key != _NONE)
    return Origins(source, target_rows, target_key[target_rows])


def _previous(history: History, outcome: KeyOutcome) -> Int64s:
    """For each change the one that wrote the row it found, or why there is none."""
    size = len(history)
    codes = np.concatenate([outcome.key, outcome.left])
    times = np.concatenate([np.arange(size, dtype=np.int64) * 2 + 1, outcome.moved * 2])
    order = np.lexsort((times, codes)) if len(outcome.moved) else np.argsort(codes, kind="stable")
    ordered_codes, ordered_times = codes[order], times[order]
    before = np.full(len(order), _NONE, np.int64)
    same = ordered_codes[1:] == ordered_codes[:-1]
    found = ordered_times[:-1] // 2
    wrote = (ordered_times[:-1] % 2 == 1) & (history.op[found] != DMLOperation.DELETE)
    before[1:][same] = np.where(wrote, found, _LOST)[same]
    by_record = np.empty_like(before)
    by_record[order] = before
    previous = by_record[:size]
    previous[outcome.moved] = by_record[size:]  # a moved row comes from its old key
    return previous


def _jump(mask: Bools, previous: Int64s) -> Int64s:
    """For each change the nearest one back along `previous` that holds the column, else the first of the row.

    Doubles its stride each time, so that one row updated a million times costs twenty steps.
    """
    target = np.arange(len(mask), dtype=np.int64)
    follow = mask & (previous >= 0)
    target[follow] = previous[follow]
    while True:
        further = target[target]
        if np.array_equal(further, target):
            return target
        target = further
