"""Keeps whether each statement that renames tables was emitted as renames or as new rows, so that every replay emits the same."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from replicator_source_mysql.offset import MySqlOffset

if TYPE_CHECKING:
    from replicator_sdk.context import DeltaSourceContext

DECISIONS_KEY = "rename-decisions"


class RenameDecisions:
    """Used by one thread.

    What a statement is emitted as depends on which of its tables are captured where it is read first. A replay captures
    others: a table was dropped since, fails, or has joined. If it decided again, a table would be followed under the
    wrong name from there on, or a copy that an earlier run owes would be left out.
    """

    def __init__(self, context: DeltaSourceContext) -> None:
        self._context = context
        self._kept: list[tuple[MySqlOffset, bool]] = []
        self._found: dict[tuple[object, ...], bool] = {}

    def begin(self) -> None:
        """No statement has been read; durable on return."""
        self._kept, self._found = [], {}
        self._save()

    def resume(self) -> None:
        """Read what is kept."""
        stored = json.loads(self._context.get_state(DECISIONS_KEY) or b"[]")
        self._take([(MySqlOffset.from_json(place), renamed) for place, renamed in stored])

    def prune(self, oldest: MySqlOffset) -> None:
        """Forget statements that no replay begins before, now and from the next `keep` on durably."""
        self._take([(place, renamed) for place, renamed in self._kept if oldest < place])

    def _take(self, kept: list[tuple[MySqlOffset, bool]]) -> None:
        self._kept = kept
        self._found = {key: renamed for place, renamed in kept for key in _keys(place)}

    def at(self, place: MySqlOffset) -> bool | None:
        """Whether the statement that ends at `place` was emitted as renames; None when it is read for the first time."""
        return next((self._found[key] for key in _keys(place) if key in self._found), None)

    def keep(self, place: MySqlOffset, renamed: bool) -> None:
        """Keep that of a statement that is read for the first time; durable on return."""
        self._kept.append((place, renamed))
        self._found |= dict.fromkeys(_keys(place), renamed)
        self._save()

    def _save(self) -> None:
        stored = [[place.to_json(), renamed] for place, renamed in self._kept]
        self._context.put_state(DECISIONS_KEY, json.dumps(stored).encode())


def _keys(place: MySqlOffset) -> list[tuple[object, ...]]:
    """The place on its own server, and by its GTIDs on another one."""
    here: list[tuple[object, ...]] = [(place.server, place.file_number, place.position)]
    return [*here, (str(place.gtids),)] if place.gtids else here
