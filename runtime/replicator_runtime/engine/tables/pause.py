"""What is stored of a table that an operator has paused, or that waits for an operator's decision."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from replicator_sdk import Column, DDLOperation, Position

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from replicator_sdk import Offset, TableId


@dataclass(frozen=True, slots=True)
class HeldChange:
    """A change of structure that the target gets when an operator has approved it.

    Attributes:
        change_id: Names it; the same when a restarted run reads it again.
        position: The table's position once it is applied.
        operation: What happened at the source.
        text: The change in words.
        since: When it was held, in seconds since 1970.
        columns: Those that it drops.
        only_approved: Why it cannot be rejected; empty when it can.
    """

    change_id: str
    position: Position
    operation: DDLOperation
    text: str
    since: float
    columns: tuple[Column, ...] = ()
    only_approved: str = ""

    def to_json(self) -> dict[str, Any]:
        """The form stored; `at` is for people."""
        return {
            "id": self.change_id,
            "position": self.position.to_json(),
            "at": str(self.position),
            "operation": self.operation.value,
            "text": self.text,
            "since": self.since,
            "columns": [column.to_json() for column in self.columns],
            "onlyApproved": self.only_approved,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any], read_offset: Callable[[Mapping[str, bytes]], Offset]) -> HeldChange:
        """The inverse of `to_json`."""
        return cls(
            value["id"],
            Position.from_json(value["position"], read_offset),
            DDLOperation(value["operation"]),
            value["text"],
            value["since"],
            tuple(map(Column.from_json, value["columns"])),
            value["onlyApproved"],
        )


@dataclass(frozen=True, slots=True)
class Decision:
    """What follows from one change of structure; it holds for that change however often it is read.

    Attributes:
        change_id: The change's.
        position: Likewise.
        approved: Whether the target gets it.
        request: The request of the operator who decided; empty where the pipeline did.
        kept: The columns that the target keeps from the change on.
    """

    change_id: str
    position: Position
    approved: bool
    request: str
    kept: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The form stored."""
        return {
            "id": self.change_id,
            "position": self.position.to_json(),
            "approved": self.approved,
            "request": self.request,
            "kept": list(self.kept),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any], read_offset: Callable[[Mapping[str, bytes]], Offset]) -> Decision:
        """The inverse of `to_json`."""
        position = Position.from_json(value["position"], read_offset)
        return cls(value["id"], position, value["approved"], value["request"], tuple(value.get("kept", ())))


@dataclass(slots=True)
class Pause:
    """A pause, from the request to pause until the target has taken the table's lane.

    Attributes:
        lane: Names the files of its lane; no other pause has it.
        request: The last request to pause it; empty when only a change of structure holds it, which an operator is asked about.
        since: When that was carried out, in seconds since 1970.
        base: How far the target's table was when its lane began; None until an attempt has asked.
        resuming: Whether the lane is to be given to the target.
        changes: The changes of structure that came meanwhile and that an operator is asked about, or was, in order.
        failed: Whether no operator asked for it: the table has failed for long, and its lane is given to the target again and again.
        in_log: Whether it has no lane, since the source's log keeps its changes: it is read by itself, from `base`, when it is resumed.
        holds_since: Since when its changes do not even come into its lane, so that it holds the source's log, in seconds since 1970;
            None while they do. Only of a table that failed.
    """

    lane: str
    request: str
    since: float
    base: Position | None = None
    resuming: bool = False
    changes: list[HeldChange] = field(default_factory=list)
    failed: bool = False
    in_log: bool = False
    holds_since: float | None = None

    def to_json(self) -> dict[str, Any]:
        """The form stored."""
        return {
            "lane": self.lane,
            "request": self.request,
            "since": self.since,
            "base": None if self.base is None else self.base.to_json(),
            "resuming": self.resuming,
            "changes": [change.to_json() for change in self.changes],
            "failed": self.failed,
            "inLog": self.in_log,
            "holdsSince": self.holds_since,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any], read_offset: Callable[[Mapping[str, bytes]], Offset]) -> Pause:
        """The inverse of `to_json`."""
        base = value["base"]
        return cls(
            value["lane"],
            value["request"],
            value["since"],
            None if base is None else Position.from_json(base, read_offset),
            value["resuming"],
            [HeldChange.from_json(change, read_offset) for change in value.get("changes", ())],
            value.get("failed", False),
            value.get("inLog", False),
            value.get("holdsSince"),
        )


def change_id_of(table: TableId, position: Position) -> str:
    """Names the change of a table at a position."""
    content = json.dumps([table.to_json(), position.to_json()], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:10]
