"""Stores what the engine knows of each table: its state, its snapshot plan and its schemas over time.

Saved *before* the offset it belongs to. A schema is valid from a position on, so that a
replay from an older offset decodes old changes with the schema of their time.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from replicator_runtime.engine.tables.pause import Decision, HeldChange, Pause
from replicator_runtime.engine.tables.remains import Remains, RemainsList
from replicator_runtime.engine.tables.rename_step import RenameStep
from replicator_runtime.engine.tables.table_file import TableFile, packed, table_key, unpacked
from replicator_runtime.engine.tables.table_scope import TableScope
from replicator_runtime.engine.tables.table_state import TableState
from replicator_sdk import Column, DDLOperation, Offset, Position, SnapshotChunk, TableId, TableSchema
from replicator_sdk.offset import offset_from_json, offset_to_json
from replicator_sdk.schema import rename_table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from replicator_state import StateStore


NO_ROWS = "0 = 1"
"""The condition of a copy that begins empty."""


@dataclass(slots=True)
class SnapshotRecord:
    """A snapshot that was begun.

    Attributes:
        snapshot_id: Names the plan at the target.
        chunks: Its chunks; empty for one that cannot be resumed.
        first: The offset its earliest rows are exact at: where the log is applied from.
        last: The offset its latest rows are exact at: until there the log may repeat what they hold.
        done: Whether all chunks are loaded.
        where: The condition of the rows that it has; all when it is empty.
    """

    snapshot_id: str
    chunks: tuple[SnapshotChunk, ...]
    first: Offset
    last: Offset
    done: bool = False
    where: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether it has no rows on purpose."""
        return self.where == NO_ROWS


def _may_be_same(one: TableSchema, other: TableSchema) -> bool:
    """Whether both may be of one table: the source does not say that they are not."""
    return not (one.source_id and other.source_id) or one.source_id == other.source_id


@dataclass(slots=True)
class TableRecord:
    """One selected table."""

    table: TableId
    schemas: list[tuple[Position | None, TableSchema]] = field(default_factory=list)
    state: TableState = TableState.PENDING
    snapshot: SnapshotRecord | None = None
    error: dict[str, Any] | None = None
    scope: TableScope | None = None
    """Which part of it was selected when its schema was described; None when unknown."""
    left_at: Offset | None = None
    """The saved offset when the pipeline ceased to select it; of sources without snapshots only."""
    left_late: bool = False
    """Whether the saved offset had passed it when it was left: then it was between offsets in its own way, and none is before it."""
    created: bool = False
    """Whether the target's table was created empty, for a source without snapshots."""
    passed_over: bool = False
    """Whether changes of it were passed that were not selected, or that the log lost, and the source takes no snapshots."""
    dropping: Position | None = None
    """The position of a DROP_TABLE that the target is about to apply, or has applied."""
    failing_since: float | None = None
    """When its present failure began, in seconds since 1970; None once changes of it were applied since."""
    released: bool = False
    """Whether it failed for so long that it gave the log up: it is copied again, and holds no offset until that begins."""
    resync: str = ""
    """The last request that it is copied again, which is thereby carried out."""
    wants_copy: bool = False
    """Whether it is to be described and copied again as soon as the source lists it; until then it goes on as it is."""
    beside: bool = False
    """Whether its next copy is made beside what the target has of it, which one commit replaces."""
    pause: Pause | None = None
    """Set from a request to pause it until the target has all changes that came meanwhile."""
    resumed: str = ""
    """The last request to resume it, which is thereby carried out."""
    decisions: list[Decision] = field(default_factory=list)
    """What was decided of its changes of structure, as far back as an offset is kept from which they may be read again."""
    kept_columns: tuple[Column, ...] = ()
    """Columns that the source has dropped and the target has kept."""
    keeps_rows: bool = False
    """Whether the target has kept rows that the source has truncated."""
    removed: str = ""
    """The last request to drop it, which is thereby carried out."""
    renames: list[RenameStep] = field(default_factory=list)
    """What the target is still to rename, in order, of this table and of those that it exchanges names with."""
    was_begun: bool = False
    """Whether a copy of it was begun, with rows or empty: from then on it is never begun empty."""
    wants_rows: bool = False
    """Whether an operator asked for a copy with its rows, until that has ended."""
    selected: bool = False
    """Whether the pipeline selects it and the source has it, or its copy runs, in this attempt; not kept."""
    gone: bool = False
    """Whether it was copied and the source has it no more, in this attempt; not kept. The log holds its last changes."""

    copying: bool = False
    """Whether a copy of it runs, which changes the record in a thread of its own; not kept."""

    @property
    def schema(self) -> TableSchema:
        """The newest schema."""
        return self.schemas[-1][1]

    @property
    def needs_snapshot(self) -> bool:
        """Whether its rows are still to be read."""
        return self.snapshot is None or not self.snapshot.done

    @property
    def awaits_copy(self) -> bool:
        """The same; not so once it was created empty, for a source without snapshots."""
        return self.needs_snapshot and not self.created

    @property
    def is_in_log(self) -> bool:
        """Whether the source's log keeps its changes until it is read by itself, so that no offset is held for it."""
        return self.pause is not None and self.pause.in_log

    @property
    def copy_id(self) -> str:
        """Names the copy that the target's table began with; empty for a source without snapshots."""
        return self.snapshot.snapshot_id if self.snapshot is not None else ""

    def schema_at(self, offset: Offset) -> TableSchema:
        """The schema by which changes after `offset` are decoded."""
        here = Position(offset)
        valid = [schema for since, schema in self.schemas if since is None or since <= here]
        return valid[-1] if valid else self.schemas[0][1]

    def goes_on_at(self, offset: Offset | None) -> bool:
        """Whether a log that is read on from `offset` has all changes since the pipeline ceased to select the table.

        A rewind goes back to before that place.
        """
        if self.left_at is None or offset is None:
            return False
        return offset == self.left_at or (not self.left_late and offset < self.left_at)

    @property
    def named_since(self) -> Position | None:
        """Where the table got its name, when it had another one before that is still known; None otherwise.

        Events of its name up to there concern another table.
        """
        others = [place for place, (_, schema) in enumerate(self.schemas) if schema.table != self.table]
        return self.schemas[others[-1] + 1][0] if others else None

    def is_named_after(self, position: Position) -> bool:
        """Whether the table had another name at `position`: an event there of its name of now concerns another table."""
        since = self.named_since
        return since is not None and position <= since

    def rename(self, since: Position, table: TableId) -> None:
        """The table is called `table` from `since` on."""
        self.schemas.append((since, rename_table(self.schema, table)))
        self.table = table

    def learn(self, since: Position | None, schema: TableSchema) -> bool:
        """`schema` is valid from `since` until the next known position; returns whether that is new."""
        place = self._count_until(since) if since is not None else len(self.schemas)
        before = self.schemas[place - 1] if place else None
        if before is not None and before[1] == schema:
            return False
        known = before is not None and before[0] == since
        self.schemas[place - known : place] = [(since, schema)]
        return True

    def learn_older(self, since: Position, schema: TableSchema, here: Position) -> bool:
        """The same of an event that the table has; what is valid at `here`, the table's position, stays so."""
        place = self._count_until(here)
        if place and since < here and self._count_until(since) == place:
            self.schemas.insert(place, (here, self.schemas[place - 1][1]))
        return self.learn(since, schema)

    def copied_before(self, position: Position) -> TableSchema | None:
        """The schema of the table's copy, when that is the last known before `position`; else None.

        None as well where columns have no identity: two columns of one name would be the same.
        """
        before = [(since, known) for since, known in self.schemas if since is not None and since < position]
        if not before or before[-1][0].events_after:
            return None  # not copied, or changed since its copy
        return before[-1][1] if all(column.source_id for column in before[-1][1].columns) else None

    def learn_from_copy(self, position: Position, schema: TableSchema) -> None:
        """A new copy has `schema` at `position`; what was known of later positions is learned again from the log.

        What was known of another table is forgotten, which had the name when it was described.
        """
        known = [
            (since, there)
            for since, there in self.schemas
            if (since is None or since < position) and _may_be_same(there, schema)
        ]
        self.schemas = [*known, (position, schema)]

    def _count_until(self, position: Position) -> int:
        return sum(since is None or since <= position for since, _ in self.schemas)

    def decision_at(self, position: Position | None) -> Decision | None:
        """What was decided of the change of structure at `position`; None when nothing was."""
        return next((decision for decision in self.decisions if decision.position == position), None)

    def kept_at(self, position: Position | None) -> tuple[Column, ...]:
        """Those of `kept_columns` that the source has dropped by `position`; before that they are columns like others, or not there."""
        later = {
            name
            for decision in self.decisions
            if position is not None and position < decision.position
            for name in decision.kept
        }
        return tuple(column for column in self.kept_columns if column.name not in later)

    @property
    def fails_in_lane(self) -> bool:
        """Whether it has failed for long, so that its changes go to a lane."""
        return self.pause is not None and self.pause.failed

    @property
    def undecided(self) -> list[HeldChange]:
        """The changes of structure that it waits for a decision of."""
        changes = [] if self.pause is None else self.pause.changes
        return [change for change in changes if self.decision_at(change.position) is None]

    @property
    def is_drop_decided(self) -> bool:
        """Whether the source has dropped it, and it was decided what follows, which the next attempt does."""
        changes = [] if self.pause is None else self.pause.changes
        drops = (change for change in changes if change.operation is DDLOperation.DROP_TABLE)
        return any(self.decision_at(change.position) is not None for change in drops)

    @property
    def asks(self) -> str:
        """The same in words; empty when there are none."""
        return "; ".join(f"{change.text} ({change.change_id})" for change in self.undecided)

    def end_resuming(self) -> None:
        """It is to be copied again: if its lane was given to the target, that makes no difference any more."""
        if self.pause is not None and (self.pause.resuming or self.pause.failed):
            self.pause.resuming = self.pause.failed = False
            if not self.undecided:
                self.pause = None

    def drop_snapshot(self) -> None:
        """Its rows are to be read again: the target's table is replaced, with what it has kept."""
        self.snapshot, self.kept_columns, self.keeps_rows = None, (), False
        if self.fails_in_lane:
            self.pause = None  # a lane without a copy is of no use

    def forget_copy(self) -> None:
        """The table is to be described and copied again; nothing of the log before that copy is needed."""
        self.end_resuming()
        self.drop_snapshot()
        self.scope, self.schemas = None, []
        self.selected = self.gone = False

    def forget_schemas_before(self, offset: Offset) -> None:
        """Drop schemas that no kept offset needs any more; `offset` is the oldest one kept."""
        here = Position(offset)
        valid = [i for i, (since, _) in enumerate(self.schemas) if since is None or since <= here]
        if valid:
            del self.schemas[: valid[-1]]

    def forget_schemas_after(self, offset: Offset) -> bool:
        """Drop schemas that are valid after `offset` only, which the log says again; returns whether there were any."""
        here = Position(offset)
        kept = [(since, schema) for since, schema in self.schemas if since is None or since <= here]
        dropped = 0 < len(kept) < len(self.schemas)
        if dropped:
            self.schemas = kept
        return dropped


MOST_LEFT = 200
"""How many tables that are replicated no more are remembered."""


@dataclass(slots=True)
class _Save:
    """What threads want saved by the same write.

    Attributes:
        tables: These, unless `everything`.
        everything: Whether all are.
        done: Whether it is durable.
    """

    tables: set[TableId] = field(default_factory=set)
    everything: bool = False
    done: bool = False


class TableStore:
    """All selected tables. Used by the engine's main thread; `save` also by snapshot threads: what several of them want is one write."""

    def __init__(self, store: StateStore, read_offset: Callable[[Mapping[str, bytes]], Offset]) -> None:
        self._file = TableFile(store)
        self._read_offset = read_offset
        self._lock = threading.Lock()
        self._next_lock = threading.Lock()
        self._next = _Save()
        self.records: dict[TableId, TableRecord] = {}
        self.selection: dict[str, Any] | None = None
        """The pipeline's selection when this was saved last, as `edits` writes it; None when unknown."""
        self.remains = RemainsList()
        """What is to be deleted at the target."""
        self.left: dict[TableId, None] = {}
        """Tables that were replicated and are no more, the newest last, at most `MOST_LEFT`: the target may have kept them."""

    @property
    def renames(self) -> list[RenameStep]:
        """What the target is still to rename, in order; the records have the new names already."""
        return [step for record in list(self.records.values()) for step in record.renames]

    def load(self) -> None:
        """Read what an earlier run or attempt kept; the record of a table whose copy runs stays as it is."""
        with self._lock:
            tables, selection = self._file.load()
            self.remains.add_stored((selection or {}).pop("remains", ()))
            self.left = dict.fromkeys(map(TableId.from_json, (selection or {}).pop("left", ())))
            self.selection = selection or None
            copying = {table: record for table, record in self.records.items() if record.copying}
            self.records = {r.table: r for r in map(self._record, tables)} | copying

    def record(self, table: TableId) -> TableRecord:
        """The record of `table`; a new one when there is none."""
        return self.records.setdefault(table, TableRecord(table, selected=True))

    def note_remains(self, record: TableRecord) -> None:
        """The table's plan is about to be forgotten: note what it may leave at the target, unless it is finished."""
        plan = record.snapshot
        if plan is not None and not plan.done:
            self.remains.note(Remains(record.table, plan.snapshot_id))

    def forget(self, record: TableRecord) -> None:
        """It is replicated no more; what may be left of it at the target is noted."""
        self.note_remains(record)
        del self.records[record.table]
        if record.schemas:
            self.left.pop(record.table, None)
            self.left[record.table] = None
            for oldest in list(self.left)[:-MOST_LEFT]:
                del self.left[oldest]

    def save(self, record: TableRecord | None = None) -> None:
        """Keep `record`, or everything; durable when it returns."""
        with self._next_lock:
            save = self._next
            save.everything |= record is None
            if record is not None:
                save.tables.add(record.table)
        with self._lock:
            if not save.done:
                self._take(save)
                self._write(save)
                save.done = True

    def _take(self, save: _Save) -> None:
        """Let later calls wait for another write than this one."""
        with self._next_lock:
            if self._next is save:
                self._next = _Save()

    def _write(self, save: _Save) -> None:
        everything = save.everything or not self._file.is_known
        records = (
            list(self.records.values()) if everything else [self.records[t] for t in save.tables if t in self.records]
        )
        texts = {table_key(r.table.to_json()): json.dumps(self._json(r)) for r in records}
        self._file.put(texts, self._selection_text(), only_these=everything)

    def _selection_text(self) -> str:
        """The selection, with what is to be deleted at the target, and what may be left there, where there is any."""
        more = {"remains": self.remains.to_json(), "left": [table.to_json() for table in list(self.left)]}
        noted = {name: value for name, value in more.items() if value}
        return json.dumps({**(self.selection or {}), **noted} if noted else self.selection)

    def _json(self, record: TableRecord) -> dict[str, Any]:
        snapshot = record.snapshot
        return {
            "table": record.table.to_json(),
            "dropping": _position_json(record.dropping),
            "renames": [step.to_json() for step in record.renames],
            "state": record.state.value,
            "error": record.error,
            "schemas": packed([(_position_json(since), schema) for since, schema in record.schemas]),
            "picked": record.scope and record.scope.to_json(),
            "leftAt": None if record.left_at is None else offset_to_json(record.left_at),
            "leftLate": record.left_late,
            "created": record.created,
            "passedOver": record.passed_over,
            "failingSince": record.failing_since,
            "released": record.released,
            "resync": record.resync,
            "wantsCopy": record.wants_copy,
            "wasBegun": record.was_begun,
            "wantsRows": record.wants_rows,
            "beside": record.beside,
            "pause": record.pause and record.pause.to_json(),
            "resumed": record.resumed,
            "decisions": [decision.to_json() for decision in record.decisions],
            "keptColumns": [column.to_json() for column in record.kept_columns],
            "keepsRows": record.keeps_rows,
            "removed": record.removed,
            "snapshot": snapshot
            and {
                "id": snapshot.snapshot_id,
                "chunks": [c.to_json() for c in snapshot.chunks],
                "first": offset_to_json(snapshot.first),
                "last": offset_to_json(snapshot.last),
                "done": snapshot.done,
                "where": snapshot.where,
            },
        }

    def _record(self, value: dict[str, Any]) -> TableRecord:
        snapshot = value["snapshot"]
        return TableRecord(
            TableId.from_json(value["table"]),
            [(self._position(since), schema) for since, schema in unpacked(value["schemas"])],
            TableState(value["state"]),
            snapshot
            and SnapshotRecord(
                snapshot["id"],
                tuple(map(SnapshotChunk.from_json, snapshot["chunks"])),
                self._offset(snapshot["first"]),
                self._offset(snapshot["last"]),
                snapshot["done"],
                snapshot.get("where", ""),
            ),
            value["error"],
            (picked := value.get("picked")) and TableScope.from_json(picked),
            (left := value.get("leftAt")) and self._offset(left),
            left_late=value.get("leftLate", False),
            created=value.get("created", False),
            passed_over=value.get("passedOver", False),
            dropping=self._position(value.get("dropping")),
            renames=[RenameStep.from_json(step, self._read_offset) for step in value.get("renames", ())],
            failing_since=value.get("failingSince"),
            released=value.get("released", False),
            resync=value.get("resync", ""),
            wants_copy=value.get("wantsCopy", False),
            was_begun=value.get("wasBegun", True),
            wants_rows=value.get("wantsRows", False),
            beside=value.get("beside", False),
            pause=(pause := value.get("pause")) and Pause.from_json(pause, self._read_offset),
            resumed=value.get("resumed", ""),
            decisions=[Decision.from_json(found, self._read_offset) for found in value.get("decisions", ())],
            kept_columns=tuple(map(Column.from_json, value.get("keptColumns", ()))),
            keeps_rows=value.get("keepsRows", False),
            removed=value.get("removed", ""),
        )

    def _position(self, value: dict[str, Any] | None) -> Position | None:
        return None if value is None else Position.from_json(value, self._read_offset)

    def _offset(self, value: dict[str, str]) -> Offset:
        return offset_from_json(value, self._read_offset)


def _position_json(position: Position | None) -> dict[str, Any] | None:
    return None if position is None else position.to_json()
