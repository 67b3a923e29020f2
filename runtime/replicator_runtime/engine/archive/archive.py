"""The change archive of a run: what the target gets is staged before, and written into Parquet files after."""

from __future__ import annotations

import base64
import json
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import structlog

from replicator_runtime.engine.archive.checkpoints import Checkpoints
from replicator_runtime.engine.archive.consumer import wrapped
from replicator_runtime.engine.archive.copy_notes import forget_copy, note_copy, remove_given_up
from replicator_runtime.engine.archive.manifests import Manifests
from replicator_runtime.engine.archive.names import file_name, files_of, lane_of
from replicator_runtime.engine.archive.renames import rename_entry, renames_of
from replicator_runtime.engine.lanes.lane import Lane
from replicator_runtime.engine.lanes.lane_file import LaneEntry, part_name, position_name
from replicator_runtime.engine.lanes.lane_path import path_between
from replicator_sdk import BatchConsumer
from replicator_sdk.change_archive.ddl_json import event_json, event_values
from replicator_sdk.change_archive.rows import parquet_files, rows_of_changes
from replicator_sdk.errors import FencedError, NeedsUserError, ReplicatorError
from replicator_sdk.failpoint import failpoint, register
from replicator_state import ArchiveFolder

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from replicator_runtime.engine.archive.copies import CopyFiles
    from replicator_runtime.engine.lanes.lane import LaneStep
    from replicator_runtime.engine.run_state.run import Run
    from replicator_sdk import DDLEvent, EventConsumer, Position, TableId
    from replicator_state import LaneFolder

register("engine.archive.files_written", "engine.archive.tidied", "engine.archive.copied", "engine.archive.renamed")
log = structlog.get_logger()
_STAGED_BYTES: Final = 64 << 20
_WAIT_SECONDS: Final = 60.0
_PRUNE_SECONDS: Final = 3600.0
_INTENT: Final = ".intent"
_FILES_AT_ONCE: Final = 8
"""An object store takes some tens of milliseconds for each, and the stream waits meanwhile."""


@dataclass(slots=True)
class StagedTable:
    """A table's changes that are staged.

    Attributes:
        lane: They, in order.
        confirmed: Up to where the target has the table, durable.
    """

    lane: Lane
    confirmed: Position


class ChangeArchive:
    """One instance per run. Safe from any thread; changes of one table come from one thread at a time.

    What the target is given is first put into the state (as what a paused table's lane gets), durable before the target has it. From
    there it goes into the archive's files, once the target has it, and then a manifest names these. So a run that ends anywhere
    leaves for each table: files up to the manifests' end, then staged changes that lead to where the target is, and maybe
    staged changes after that, which are deleted since the log brings them again.

    Args:
        run: The run.
        stage: Where changes are staged.
    """

    def __init__(self, run: Run, stage: LaneFolder) -> None:
        assert run.config.archive is not None
        self._config = run.config.archive
        self._run = run
        self._stage = stage
        wait = run.config.retries.max_duration_seconds
        self.folder = ArchiveFolder(self._config.path, _WAIT_SECONDS if wait is None else min(_WAIT_SECONDS, wait))
        self._manifests = Manifests(run, self.folder)
        self._checkpoints = Checkpoints(self.folder, self._manifests.read)
        self._lock = threading.RLock()
        self._tables: dict[TableId, StagedTable] = {}
        self._names: list[str] = []
        self._due_at = time.monotonic() + self._config.flush_seconds
        self._prune_at = 0.0

    # --- what the run calls

    def begin_attempt(self, consumer: EventConsumer) -> None:
        """See `Archiving.begin_attempt`."""
        if not isinstance(consumer, BatchConsumer):
            raise NeedsUserError(
                f"the target {self._run.pipeline.target.name} takes rows one by one, and these cannot be archived",
                code="RPL-1250",
                hint="take `archive` out of the pipeline, or use a target that takes batches",
            )
        with self._lock:
            self._manifests.load()
            self._tables = {}
            self._names = self._stage.names()
            self._undo_unlisted()
            remove_given_up(self.folder, self._manifests, self._copies_going_on)
            tables = {lane_of(table): table for table in [*self._run.table_store.records]}
            tables |= {lane_of(table): table for table in self._manifests.ends if lane_of(table) not in tables}
            lanes = {name.partition(".")[0] for name in self._names if not name.endswith(_INTENT)}
            self._remove(name for name in self._names if name.partition(".")[0] in lanes - tables.keys())
        for lane in sorted(lanes & tables.keys()):
            try:
                if self.staged(tables[lane], consumer) is None:
                    self._open_former(tables[lane])
            except FencedError:
                raise
            except ReplicatorError as error:  # the table fails with it when the engine asks
                log.warning("archive.not_opened", table=str(tables[lane]), code=error.code)

    def wrapped(self, consumer: EventConsumer) -> EventConsumer:
        """See `Archiving.wrapped`."""
        return wrapped(consumer, self)

    def renamed(self, events: Sequence[DDLEvent], consumer: EventConsumer) -> None:
        """See `Archiving.renamed`."""
        assert isinstance(consumer, BatchConsumer)
        with self._lock:
            renames = renames_of(events, self._manifests.ends)
        known = [rename for rename in renames if self.staged(rename.former, consumer) is not None]
        if not known:
            return  # of what the target has renamed already the archive lacks changes, so a break follows under the new name
        with self._lock:
            for rename in known:
                self._end_table(rename.former)
            ends: dict[TableId, Position | None] = {rename.former: None for rename in known}
            ends |= {rename.schema.table: rename.position for rename in known}
            self._manifests.write([rename_entry(known)], ends)
            failpoint("engine.archive.renamed")

    def confirm(self, table: TableId, position: Position) -> None:
        """See `Archiving.confirm`."""
        with self._lock:
            staged = self._tables.get(table)
            if staged is not None and staged.confirmed < position:
                staged.confirmed = position

    def flush(self, *, only_when_due: bool = False) -> None:
        """See `Archiving.flush`."""
        with self._lock:
            if only_when_due and not self._is_due:
                return
            while self._write_files(self._tables):
                pass
            self._due_at = time.monotonic() + self._config.flush_seconds
            self._checkpoints.write_due(self._manifests.number)
            self._prune()

    def note_gap(self, tables: Iterable[TableId], why: str) -> None:
        """Note, while no attempt goes on, that changes of tables are in no log: each is a break; durable when this returns."""
        with self._lock:
            self._manifests.load()
            for table in tables:
                if (end := self._manifests.ends.get(table)) is not None:
                    self._break(table, end, why)

    @property
    def _is_due(self) -> bool:
        staged = sum(staged.lane.nbytes for staged in self._tables.values())
        return staged >= _STAGED_BYTES or time.monotonic() >= self._due_at

    # --- what the consumer calls

    def staged(self, table: TableId, consumer: BatchConsumer) -> StagedTable | None:
        """The table's staged changes, which end where the target has the table; None when it has no such table.

        Raises:
            ReplicatorError: As target, archive or state fail.
        """
        with self._lock:
            if (known := self._tables.get(table)) is not None:
                return known
        progress = consumer.progress(table)
        if progress is None:
            return None
        with self._lock:
            lane = self._continued(table, progress.position) or self._broken(table, progress.position)
            self._tables[table] = staged = StagedTable(lane, progress.position)
            return staged

    def copying(self, files: CopyFiles) -> None:
        """A table's copy begins, or goes on: should it be given up, a later run deletes what the archive has of it."""
        with self._lock:
            note_copy(self.folder, files, self._manifests.number)

    def copied(self, files: CopyFiles, position: Position, chunks: Collection[int]) -> None:
        """All chunks of a table's copy are read: from now on the archive has the table at `position`; durable on return."""
        table = files.schema.table
        with self._lock:
            self._end_table(table)
            found = files.found(chunks)
            if found is None:
                self._break(table, position, "a part of its copy was read before `archive` was set")
            else:
                entry = {"kind": "copy", "schema": files.schema.to_json(), "copy": files.copy, **found}
                self._manifests.write([self._entry(table, position, **entry)], {table: position})
            forget_copy(self.folder, files, is_listed=found is not None)
            failpoint("engine.archive.copied")

    def dropped(self, table: TableId) -> None:
        """The table is dropped: what is staged is written, and the archive has it no more; durable on return."""
        with self._lock:
            known = self._manifests.ends.get(table)
            staged = self._tables.get(table)
            if staged is not None:
                staged.confirmed = known = staged.lane.end
            self._end_table(table)
            if known is not None:
                self._manifests.write([self._entry(table, known, kind="end")], {table: None})

    # --- staged changes

    def _continued(self, table: TableId, position: Position) -> Lane | None:
        """The lane from where the archive has the table up to `position`; None when the changes between are unknown."""
        base, name = self._manifests.ends.get(table), lane_of(table)
        names = [found for found in self._names if found.partition(".")[0] == name]
        entries = [entry for found in names if (entry := LaneEntry.of(found)) is not None]
        path = None if base is None else path_between(entries, position_name(base), position_name(position))
        kept = {file for entry in path or () for file in _files(entry)}
        self._remove(found for found in names if found not in kept)
        if base is None or path is None:
            return None
        lane = Lane(self._stage, name, self._run.read_offset, base, [entry.name for entry in path])
        return lane if lane.is_joined and lane.end == position else None

    def _open_former(self, table: TableId) -> None:
        """Open what is staged of a table that the target has no more and the run does not know: the log had no more of it."""
        with self._lock:
            name, base = lane_of(table), self._manifests.ends.get(table)
            if base is None or table in self._run.table_store.records:
                return
            names = [found for found in self._names if found.partition(".")[0] == name]
            lane = Lane(self._stage, name, self._run.read_offset, base, names)
            if lane.is_joined:
                self._tables[table] = StagedTable(lane, lane.end)

    def _broken(self, table: TableId, position: Position) -> Lane:
        known = table in self._manifests.ends
        why = "changes before are not in the archive" if known else "its rows are not in the archive"
        self._break(table, position, why)
        return Lane(self._stage, lane_of(table), self._run.read_offset, position, ())

    def _break(self, table: TableId, position: Position, why: str) -> None:
        """Note that the table cannot be rebuilt from the archive until it is copied again; durable when this returns."""
        log.warning(
            "archive.broken",
            table=str(table),
            position=str(position),
            why=why,
            hint="`replicator table resync NAME TABLE` copies it again",
        )
        self._manifests.write([self._entry(table, position, kind="break", why=why)], {table: position})

    def _end_table(self, table: TableId) -> None:
        """Write what is staged of the table and the target has; forget the rest, which the log brings again if it is needed."""
        staged = self._tables.get(table)
        if staged is None:
            return
        while self._write_files({table: staged}):
            pass
        del self._tables[table]
        self._names = self._stage.names()
        self._remove(name for name in self._names if name.partition(".")[0] == lane_of(table))

    def _remove(self, names: Iterable[str]) -> None:
        gone = set(names)
        self._stage.remove(gone)
        self._names = [name for name in self._names if name not in gone]

    # --- files

    def _write_files(self, tables: dict[TableId, StagedTable]) -> bool:
        """Write the next changes of these tables into files, and name them in a manifest; False when there are none."""
        number, taken = self._manifests.number, self._next_steps(tables)
        if not taken:
            return False
        now = time.time()
        identities = {table: step.changes.identity for table, _, step in taken if step.changes is not None}
        beginnings = {
            table: files_of(table, now, identity.first_sequence, identity.last_sequence, number)
            for table, identity in identities.items()
        }
        intent = f"{number}.{uuid.uuid4().hex[:12]}{_INTENT}"
        note = {"number": number, "beginnings": list(beginnings.values())}
        self._stage.create(intent, json.dumps(note).encode())
        with ThreadPoolExecutor(_FILES_AT_ONCE, thread_name_prefix="archive") as pool:
            files = list(pool.map(lambda one: self._write_step(beginnings.get(one[0], ""), one[2]), taken))
        entries = [
            self._entry(table, step.position, **_described(step), files=list(sizes), bytes=sum(sizes.values()))
            for (table, _, step), sizes in zip(taken, files, strict=True)
        ]
        failpoint("engine.archive.files_written")
        self._manifests.write(entries, {table: step.position for table, _, step in taken})
        for _, staged, step in taken:
            staged.lane.take(step)
        self._stage.remove([file for _, _, step in taken for entry in step.entries for file in _files(entry)])
        self._stage.remove([intent])
        failpoint("engine.archive.tidied")
        return True

    def _write_step(self, beginning: str, step: LaneStep) -> dict[str, int]:
        """Write a step's changes into files; their names and sizes."""
        sizes: dict[str, int] = {}
        if step.changes is None:
            return sizes
        text = str(step.position)
        rows = (rows_of_changes(batch, text) for batch in step.changes.batches())
        for part, content in enumerate(parquet_files(step.changes.schema, rows)):
            name = file_name(beginning, part)
            self.folder.replace(name, content)
            sizes[name] = len(content)
        return sizes

    def _next_steps(self, tables: dict[TableId, StagedTable]) -> list[tuple[TableId, StagedTable, LaneStep]]:
        """One step of each table that has any, as far as memory may hold them."""
        run, limits, held = self._run, self._run.limits, 0
        taken = []
        for table, staged in tables.items():
            if held >= limits.max_bytes:
                break
            step = staged.lane.next_step(
                run.generation, run.epoch, limits.max_rows, limits.max_bytes, until=staged.confirmed
            )
            if step is not None:
                taken.append((table, staged, step))
                held += 0 if step.changes is None else step.changes.nbytes
        return taken

    def _copies_going_on(self) -> set[str]:
        plans = [record.snapshot for record in [*self._run.table_store.records.values()]]
        return {plan.snapshot_id for plan in plans if plan is not None and not plan.done}

    def _undo_unlisted(self) -> None:
        """Delete the files that a run wrote and that no manifest names.

        A superseded run may be about to write that manifest: an empty one takes its number first, or fails as the second (RPL-1252).
        """
        intents = {name: self._intent(name) for name in self._names if name.endswith(_INTENT)}
        if any(intent["number"] == self._manifests.number for intent in intents.values()):
            self._manifests.write([], {})
        for name, intent in intents.items():
            manifest = self._manifests.read(intent["number"])
            listed = {file for entry in (manifest or {"entries": ()})["entries"] for file in entry.get("files", ())}
            for beginning in intent["beginnings"]:
                folder, _, start = beginning.rpartition("/")
                found = [f"{folder}/{file}" for file in self.folder.names(folder) if file.startswith(start)]
                for file in set(found) - listed:
                    self.folder.remove(file)
            self._remove([name])

    def _intent(self, name: str) -> dict[str, Any]:
        """What a run was about to write; nothing, where it was killed while it noted that, before the first file."""
        try:
            note: dict[str, Any] = json.loads(self._stage.read(name))
        except ValueError:
            return {"number": self._manifests.number, "beginnings": []}
        return note

    def _prune(self) -> None:
        if self._config.keep_days is None or time.monotonic() < self._prune_at:
            return
        self._prune_at = time.monotonic() + _PRUNE_SECONDS
        try:
            removed = self._manifests.prune(self._config.keep_days)
            self._checkpoints.prune()
        except FencedError:
            raise
        except ReplicatorError as error:  # what is too old harms nothing; it is tried again
            log.warning("archive.not_pruned", code=error.code, error=error.message)
        else:
            log.debug("archive.pruned", manifests=removed)

    def _entry(self, table: TableId, position: Position, **more: Any) -> dict[str, Any]:
        return {"table": table.to_json(), "position": str(position), **more}


def _described(step: LaneStep) -> dict[str, Any]:
    """What a manifest says of changes, or of a change of structure."""
    if step.event is not None:
        values = base64.b64encode(event_values(step.event)).decode()
        return {"kind": "ddl", "event": event_json(step.event), "values": values}
    changes = step.changes
    assert changes is not None
    return {
        "kind": "changes",
        "schema": changes.schema.to_json(),
        "rows": changes.rows,
        "first": changes.identity.first_sequence,
        "last": changes.identity.last_sequence,
        "overlap": changes.overlap,
        "dropsLostUpdates": changes.drops_lost_updates,
        "unordered": changes.unordered,
        "committedAt": changes.source_timestamp,
    }


def _files(entry: LaneEntry) -> list[str]:
    return [entry.name, *(part_name(entry.lane, entry.token, number) for number in range(entry.parts))]
