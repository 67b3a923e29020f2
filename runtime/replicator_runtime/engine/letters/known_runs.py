"""Stores which runs may have written tables, so that a commit of any other one shows that an older state was restored.

Each process that has the lease has an epoch of its own, one higher than the last; a table's commit has the epoch of the run that made
it. A state that was restored gives out again the epochs of the runs that it does not know. So a run counts as known only once it has
asked all tables, and a command that writes single ones for these only.
"""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

from replicator_runtime.stored_forms import WRITERS, head, read_or_set_aside
from replicator_sdk.failpoint import failpoint, register

if TYPE_CHECKING:
    from collections.abc import Collection, Container

    from replicator_state import StateStore

register("engine.runs.before_save", "engine.runs.saved")
_MOST_RANGES = 100
_MOST_OF_A_COPY = 20


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
        self._lock = threading.RLock()
        self._ranges: list[tuple[int, int]] = []
        self._copies: dict[str, list[int]] = {}
        self._asked: dict[str, int] = {}

    @property
    def has_own(self) -> bool:
        """Whether `add` has been called by this process.

        Raises:
            ReplicatorError: As the state's store fails.
        """
        with self._lock:
            return self._loaded()[-1][1] >= self._epoch

    def has(self, epoch: int, copy_id: str) -> bool:
        """Whether the run with this epoch, which wrote the table with this copy last, is known.

        Raises:
            ReplicatorError: As the state's store fails.
        """
        with self._lock:
            ranges = self._loaded()
            known = any(first <= epoch <= last for first, last in ranges) or epoch in self._copies.get(copy_id, ())
            if known:
                self._asked[copy_id] = epoch
            return known

    def add_copies(self, copy_ids: Collection[str]) -> None:
        """This run may write the tables with these copies, which it has asked: durable when this returns.

        It may also write nothing, so that the commit before stays the last one and its run has to be known.

        Raises:
            ReplicatorError: As the state's store fails.
        """
        with self._lock:
            if self.has_own:
                return
            added = {c: [*self._last(c), self._epoch] for c in copy_ids if self._epoch not in self._copies.get(c, ())}
            if added:
                self._save(self._loaded(), {**self._copies, **added})

    def _last(self, copy_id: str) -> list[int]:
        """The runs of commands of which one may have made the table's last commit: a single one where the table was asked."""
        kept = self._copies.get(copy_id, [])
        asked = self._asked.get(copy_id)
        return kept[1 - _MOST_OF_A_COPY :] if asked is None else [epoch for epoch in kept if epoch == asked]

    def add(self, copy_ids: Container[str]) -> None:
        """This run may write tables from now on: durable when this returns. Called again it does nothing.

        Args:
            copy_ids: The copies of all tables; what is kept of others is forgotten.

        Raises:
            ReplicatorError: As the state's store fails.
        """
        with self._lock:
            if self.has_own:
                return
            ranges = self._loaded()
            before = ranges[-1][1]
            if before == self._epoch - 1:
                added = [*ranges[:-1], (ranges[-1][0], self._epoch)]
            else:
                added = [*ranges, (self._epoch, self._epoch)]
            if len(added) > _MOST_RANGES:
                added[:2] = [(added[0][0], added[1][1])]
            failpoint("engine.runs.before_save")
            kept = {copy_id: self._last(copy_id) for copy_id in self._copies if copy_id in copy_ids}
            self._save(added, {copy_id: epochs for copy_id, epochs in kept.items() if epochs})
            failpoint("engine.runs.saved")

    def _save(self, ranges: list[tuple[int, int]], copies: dict[str, list[int]]) -> None:
        content = {**head(WRITERS), "epochs": ranges, "copies": copies}
        self._store.put(WRITERS, json.dumps(content).encode())
        self._ranges, self._copies = ranges, copies

    def _loaded(self) -> list[tuple[int, int]]:
        if not self._ranges:
            found = read_or_set_aside(self._store, WRITERS, _parsed)
            stored = self._store.read(WRITERS)
            if stored is not None and stored.recovered_from is not None:
                found = None  # the version before a damaged one lacks the last run
            self._ranges, self._copies = found or ([(0, self._epoch - 1)], {})
        return self._ranges


def _parsed(document: Any) -> tuple[list[tuple[int, int]], dict[str, list[int]]]:
    epochs = [(int(first), int(last)) for first, last in document["epochs"]]
    return epochs, {str(copy_id): list(map(int, epochs)) for copy_id, epochs in document["copies"].items()}
