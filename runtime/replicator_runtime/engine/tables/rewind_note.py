"""Stores that a rewind was decided on, until all of it is done: a run that finds it finishes the rewind first."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from replicator_runtime.stored_forms import REWIND, head, parsed
from replicator_sdk import Position, TableId
from replicator_sdk.errors import NeedsUserError
from replicator_sdk.offset import offset_from_json, offset_to_json
from replicator_state import SavedOffset

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from replicator_sdk import Offset
    from replicator_state import StateStore


@dataclass(frozen=True, slots=True)
class RewindNote:
    """A rewind under way.

    Attributes:
        offset: Where the log is read from again.
        sequence_number: The sequence number there.
        saved_as: The number in the name of the offset's file.
        tables: What the target brings back.
        ahead: Tables that stay after the offset, and their positions.
    """

    offset: Offset
    sequence_number: int
    saved_as: int
    tables: tuple[TableId, ...]
    ahead: tuple[tuple[TableId, Position], ...] = ()

    @property
    def saved(self) -> SavedOffset:
        """The offset as it was saved."""
        return SavedOffset(
            self.sequence_number, self.offset.fields(), datetime.now(UTC), commit_timestamp=self.saved_as
        )


def store_note(store: StateStore, note: RewindNote) -> None:
    """Keep it; durable when this returns."""
    content = {
        **head(REWIND),
        "offset": offset_to_json(note.offset),
        "sequence": note.sequence_number,
        "savedAs": note.saved_as,
        "tables": [table.to_json() for table in note.tables],
        "ahead": [{"table": table.to_json(), **position.to_json()} for table, position in note.ahead],
    }
    store.put(REWIND, json.dumps(content).encode())


def load_note(store: StateStore, read_offset: Callable[[Mapping[str, bytes]], Offset]) -> RewindNote | None:
    """The rewind that is not finished; None when there is none."""
    content = store.get(REWIND)
    if not content:
        return None
    value: dict[str, Any] = parsed(REWIND, content)
    return RewindNote(
        offset_from_json(value["offset"], read_offset),
        value["sequence"],
        value["savedAs"],
        tuple(map(TableId.from_json, value["tables"])),
        tuple((TableId.from_json(one["table"]), Position.from_json(one, read_offset)) for one in value["ahead"]),
    )


def forget_note(store: StateStore) -> None:
    """All of it is done; durable when this returns."""
    store.put(REWIND, b"")  # not deleted: an earlier version of a value never counts again


def refuse_unfinished(store: StateStore) -> None:
    """Refuse what must not be done to tables of which some are brought back and others are not.

    Raises:
        NeedsUserError: RPL-1278 when a rewind is not finished.
    """
    if store.get(REWIND):
        raise NeedsUserError(
            "a rewind of this pipeline was begun and is not finished",
            code="RPL-1278",
            hint="finish it with `replicator rewind PIPELINE --yes`, or start the pipeline, which finishes it first",
        )
