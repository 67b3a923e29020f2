"""Stores where each lane ends, so that a lane that lost its newest files is noticed.

A lane is put together from the files that exist. Those that are gone (deleted by hand, or absent from a backup of the state) leave no
gap at its end, and the saved offset is after them already: nothing would bring their changes again.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from replicator_runtime.stored_forms import LANES, head, parsed
from replicator_sdk import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from replicator_sdk import Offset
    from replicator_state import StateStore


class LaneEnds:
    """The ends of all lanes, under one state key. Used by the engine's main thread.

    Each is durable before an offset is saved that is after it, and never ahead of the lane. Ends of lanes that take no changes in
    this attempt (their tables failed) are kept.

    Args:
        store: Keeps them.
        read_offset: Makes an offset of its fields.
    """

    def __init__(self, store: StateStore, read_offset: Callable[[Mapping[str, bytes]], Offset]) -> None:
        self._store = store
        self._read_offset = read_offset
        self._ends: dict[str, Position] | None = None

    def get(self, lane: str) -> Position | None:
        """Where the lane ends at least; None when nothing was put into it yet."""
        return self._loaded().get(lane)

    def save(self, ends: Mapping[str, Position]) -> None:
        """Store the ends of some lanes, durable when this returns; nothing is written when none has changed.

        Raises:
            FencedError: When a newer run took over.
            ReplicatorError: As the store fails.
        """
        known = self._loaded()
        if changed := {lane: end for lane, end in ends.items() if known.get(lane) != end}:
            self._put({**known, **changed})

    def keep(self, lanes: Collection[str]) -> None:
        """Drop the ends of all lanes but these.

        Raises:
            ReplicatorError: As `save`.
        """
        known = self._loaded()
        kept = {lane: end for lane, end in known.items() if lane in lanes}
        if len(kept) < len(known):
            self._put(kept)

    def _loaded(self) -> dict[str, Position]:
        if self._ends is None:
            content = self._store.get(LANES)
            stored = parsed(LANES, content)["lanes"] if content else {}
            self._ends = {lane: Position.from_json(end, self._read_offset) for lane, end in stored.items()}
        return self._ends

    def _put(self, ends: dict[str, Position]) -> None:
        lanes = {lane: end.to_json() for lane, end in ends.items()}
        self._store.put(LANES, json.dumps({**head(LANES), "lanes": lanes}).encode(), numbered=True)
        self._ends = ends
