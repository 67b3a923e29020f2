"""Stores which runs may have written tables, so that a commit of any other one shows that an older state was restored.

Each process that has the lease has an epoch of its own, one higher than the last; a table's commit has the epoch of the run that made
it. A state that was restored gives out again the epochs of the runs that it does not know, so a run counts as known only once it has
asked all tables.
"""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

from replicator_runtime.stored_forms import WRITERS, head, read_or_set_aside

if TYPE_CHECKING:
    from replicator_state import StateStore

_MOST_RANGES = 100


class KnownRuns:
    """The epochs of runs that may have written tables, under one state key. Safe from any thread.

    Epochs between them are of commands that wrote none, or of runs that the state does not know. Before the first call of `add`
    with a new state, or one of an earlier release, all lower epochs are known.

    Args:
        store: The state's.
        epoch: The run's own.
    """

    def __init__(self, store: StateStore, epoch: int) -> None:
        self._store, self._epoch = store, epoch
        self._lock = threading.Lock()
        self._ranges: list[tuple[int, int]] | None = None

    def has(self, epoch: int) -> bool:
        """Whether the run with this epoch is known; this one is once it was added.

        Raises:
            ReplicatorError: As the state's store fails.
        """
        with self._lock:
            return any(first <= epoch <= last for first, last in self._loaded())

    def add(self) -> None:
        """This run may write tables from now on: durable when this returns. Called again it does nothing.

        Raises:
            ReplicatorError: As the state's store fails.
        """
        with self._lock:
            ranges = self._loaded()
            before = ranges[-1][1]
            if before >= self._epoch:
                return
            if before == self._epoch - 1:
                added = [*ranges[:-1], (ranges[-1][0], self._epoch)]
            else:
                added = [*ranges, (self._epoch, self._epoch)]
            if len(added) > _MOST_RANGES:
                added[:2] = [(added[0][0], added[1][1])]
            self._store.put(WRITERS, json.dumps({**head(WRITERS), "epochs": added}).encode())
            self._ranges = added

    def _loaded(self) -> list[tuple[int, int]]:
        if self._ranges is None:
            self._ranges = read_or_set_aside(self._store, WRITERS, _ranges) or [(0, self._epoch - 1)]
        return self._ranges


def _ranges(document: Any) -> list[tuple[int, int]]:
    return [(int(first), int(last)) for first, last in document["epochs"]]
