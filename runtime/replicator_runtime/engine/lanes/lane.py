"""The lane of one table: changes that its target does not take yet, in order."""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter, deque
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from replicator_runtime.engine.batching.packed_changes import pack, packed_type, unpack
from replicator_runtime.engine.lanes.lane_file import (
    LaneEntry,
    damaged,
    is_whole,
    packed,
    part_name,
    position_name,
    unpacked,
)
from replicator_runtime.engine.lanes.lane_path import find_path, leading_to
from replicator_sdk import BatchIdentity, Position, TableChanges, TableSchema
from replicator_sdk.change_archive.ddl_json import event_json, event_of, event_values
from replicator_sdk.errors import SnapshotNeededError
from replicator_sdk.failpoint import failpoint, register

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from replicator_sdk import ChangeBatch, DDLEvent, Offset
    from replicator_state import LaneFolder

register("engine.lane.before_write", "engine.lane.after_write")
_PART_BYTES: Final = 32 << 20
_COUNTERS: Final = ("dml.insert", "dml.update", "dml.delete", "ddl")
_ALIKE: Final = ("schema", "overlap", "dropsLostUpdates", "unordered")


@dataclass(frozen=True, slots=True)
class LaneStep:
    """What the target is given next: changes under one schema, or a change of structure.

    Attributes:
        entries: What it was read from.
        position: The table's position once it is applied.
        changes: The changes; None for a change of structure.
        operations: How many of them are INSERTs, UPDATEs and DELETEs.
        event: The change of structure.
    """

    entries: Sequence[LaneEntry]
    position: Position
    changes: TableChanges | None = None
    operations: tuple[int, int, int] = (0, 0, 0)
    event: DDLEvent | None = None


class Lane:
    """Written by one thread and read by another one.

    Args:
        folder: Of all lanes.
        name: The lane's; its entries begin with it.
        read_offset: Makes an offset of its fields.
        base: How far the target's table is: the lane begins after it.
        names: The names of all files in the folder.

    Attributes:
        name: Its name.
        is_joined: Whether the lane continues `base`; otherwise the changes between the two are unknown, and it is of no use.
        base: The same.
        end: Where the next change is put; durable.
        drained: The names of files with nothing but what is before `base`.
    """

    def __init__(
        self,
        folder: LaneFolder,
        name: str,
        read_offset: Callable[[Mapping[str, bytes]], Offset],
        base: Position,
        names: Iterable[str],
    ) -> None:
        self._folder = folder
        self.name = name
        self._read_offset = read_offset
        self._lock = threading.Lock()
        known = [entry for found in names if (entry := LaneEntry.of(found)) is not None and entry.lane == name]
        path = self._whole_path(known, position_name(base))
        self.is_joined = path is not None
        leading = leading_to(known, position_name(base))
        self.drained = [file for entry in leading for file in _files(entry)]
        self.base, self._led_to = base, {entry.ends: entry for entry in leading}
        self._entries = deque(path or ())
        self._rows = sum(entry.rows for entry in self._entries)
        self._nbytes = sum(entry.nbytes for entry in self._entries)
        self.end = self._end_of(self._entries[-1]) if self._entries else base

    @property
    def rows(self) -> int:
        """How many changes are in it."""
        with self._lock:
            return self._rows

    @property
    def nbytes(self) -> int:
        """How many bytes are stored of it."""
        with self._lock:
            return self._nbytes

    @property
    def oldest_at(self) -> float | None:
        """When the first of it was written, in seconds since 1970; None when it is empty."""
        with self._lock:
            return self._entries[0].at if self._entries else None

    def drained_counts(self, after: Position) -> Mapping[str, int]:
        """What the files of `drained` hold after this position, by the names of counters; files that are gone count nothing.

        Raises:
            ReplicatorError: As the store fails.
        """
        found, at = Counter[str](), position_name(self.base)
        while (
            entry := self._led_to.pop(at, None)
        ) is not None:  # one way back: what is between two positions is the same on each
            try:
                header = self._read(entry.name)[0]
            except SnapshotNeededError:
                break
            if Position.from_json(header["end"], self._read_offset) <= after:
                break
            operations = (0, 0, 0) if "event" in header else header["operations"]
            found.update(dict(zip(_COUNTERS, (*operations, int("event" in header)), strict=True)))
            at = entry.begins
        return found

    # --- written

    def write(self, changes: TableChanges, operations: tuple[int, int, int]) -> None:
        """Put changes at the end; durable when this returns.

        Args:
            changes: What the target would be given.
            operations: How many of them are INSERTs, UPDATEs and DELETEs.

        Raises:
            FencedError: When a newer run took over; nothing of it is in the lane then.
            ReplicatorError: As the store fails.
        """
        header = {
            "schema": changes.schema.to_json(),
            "first": changes.identity.first_sequence,
            "last": changes.identity.last_sequence,
            "rows": changes.rows,
            "bytes": changes.nbytes,
            "overlap": changes.overlap,
            "dropsLostUpdates": changes.drops_lost_updates,
            "unordered": changes.unordered,
            "operations": operations,
            "timestamp": changes.source_timestamp,
        }
        self._put(header, _streams(changes), changes.identity.position, changes.rows)

    def write_event(self, event: DDLEvent) -> None:
        """The same of a change of structure."""
        assert event.position is not None
        self._put({"event": event_json(event)}, iter([event_values(event)]), event.position, 0)

    def _put(self, header: dict[str, Any], streams: Iterator[bytes], end: Position, rows: int) -> None:
        failpoint("engine.lane.before_write")
        token, parts, nbytes, last = uuid.uuid4().hex[:12], 0, 0, b""
        for number, stream in enumerate(streams):
            if number:
                content = packed({}, last)
                self._folder.create(part_name(self.name, token, parts), content)
                parts, nbytes = parts + 1, nbytes + len(content)
            last = stream
        content = packed({**header, "end": end.to_json()}, last)
        names = (position_name(self.end), position_name(end))
        entry = LaneEntry(self.name, *names, rows, nbytes + len(content), int(time.time()), parts, token)
        self._folder.create(entry.name, content)
        with self._lock:
            self._entries.append(entry)
            self._rows, self._nbytes = self._rows + entry.rows, self._nbytes + entry.nbytes
            self.end = end
        failpoint("engine.lane.after_write")

    # --- read

    def take_back(self, end: Position) -> None:
        """Delete the entry that was put last; the lane ends at `end`, where it began."""
        with self._lock:
            entry = self._entries.pop()
            self._rows, self._nbytes = self._rows - entry.rows, self._nbytes - entry.nbytes
            self.end = end
        self._folder.remove(_files(entry))

    def next_step(
        self, generation: int, epoch: int, max_rows: int, max_bytes: int, until: Position | None = None
    ) -> LaneStep | None:
        """What follows the steps that were taken; None when there is nothing. Called again it gives the same, or more.

        Args:
            generation: For the identity of changes.
            epoch: Likewise; of the run that applies them.
            max_rows: About so many changes at most.
            max_bytes: About so many bytes at most.
            until: Nothing that ends after this position.

        Raises:
            SnapshotNeededError: RPL-4131 when a file is damaged or gone.
            ReplicatorError: As the store fails.
        """
        taken: list[tuple[LaneEntry, dict[str, Any], bytes]] = []
        rows = nbytes = 0
        with self._lock:
            waiting = list(islice(self._entries, max_rows + 1))
        for entry in waiting:
            if taken and rows + entry.rows > max_rows:
                break
            header, payload = self._read(entry.name)
            if until is not None and not Position.from_json(header["end"], self._read_offset) <= until:
                break
            if "event" in header and not taken:
                event = event_of(header["event"], payload, self._read_offset)
                assert event.position is not None
                return LaneStep([entry], event.position, event=event)
            if "event" in header or (taken and not _is_alike(header, taken[0][1])):
                break
            rows, nbytes = rows + entry.rows, nbytes + header["bytes"]
            if taken and nbytes > max_bytes:
                break
            taken.append((entry, header, payload))
        return self._changes(taken, generation, epoch) if taken else None

    def take(self, step: LaneStep) -> None:
        """The target has this step, durable."""
        with self._lock:
            for _ in step.entries:
                entry = self._entries.popleft()
                self._rows, self._nbytes = self._rows - entry.rows, self._nbytes - entry.nbytes

    def _changes(self, taken: list[tuple[LaneEntry, dict[str, Any], bytes]], generation: int, epoch: int) -> LaneStep:
        headers = [header for _, header, _ in taken]
        schema = TableSchema.from_json(headers[0]["schema"])
        position = Position.from_json(headers[-1]["end"], self._read_offset)
        inserts, updates, deletes = (sum(header["operations"][kind] for header in headers) for kind in range(3))
        first, last = headers[0]["first"], headers[-1]["last"]
        changes = TableChanges(
            schema,
            BatchIdentity(generation, epoch, first, last, position),
            lambda: (batch for entry, _, payload in taken for batch in self._batches(schema, entry, payload)),
            rows=sum(header["rows"] for header in headers),
            nbytes=sum(header["bytes"] for header in headers),
            overlap=headers[0]["overlap"],
            drops_lost_updates=headers[0]["dropsLostUpdates"],
            inserts_only=updates == 0 and deletes == 0,
            source_timestamp=max(header["timestamp"] for header in headers),
            unordered=headers[0]["unordered"],
        )
        return LaneStep([entry for entry, _, _ in taken], position, changes, (inserts, updates, deletes))

    def _batches(self, schema: TableSchema, entry: LaneEntry, payload: bytes) -> Iterator[ChangeBatch]:
        for number in range(entry.parts):
            yield from _unpacked(schema, self._read(part_name(self.name, entry.token, number))[1])
        yield from _unpacked(schema, payload)

    def _read(self, name: str) -> tuple[dict[str, Any], bytes]:
        try:
            content = self._folder.read(name)
        except FileNotFoundError:
            raise damaged(name) from None
        return unpacked(name, content)

    def _end_of(self, entry: LaneEntry) -> Position:
        return Position.from_json(self._read(entry.name)[0]["end"], self._read_offset)

    def _whole_path(self, known: list[LaneEntry], base: str) -> list[LaneEntry] | None:
        """The lane's path, without a last entry that a crash left half written on file systems where it can."""
        broken: set[str] = set()
        while True:
            entries = [entry for entry in known if entry.name not in broken]
            half = {entry.name for entry in _lasts(entries) if not is_whole(self._folder.read(entry.name))}
            if not half:
                return find_path(entries, base, self._end_of)
            self._folder.remove(half)
            broken |= half


def _files(entry: LaneEntry) -> list[str]:
    """The names of an entry's files, the entry itself first."""
    return [entry.name, *(part_name(entry.lane, entry.token, number) for number in range(entry.parts))]


def _is_alike(header: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether the changes of two entries may be applied at once."""
    return all(header[key] == other[key] for key in _ALIKE)


def _lasts(entries: list[LaneEntry]) -> list[LaneEntry]:
    """The entries that no other one follows."""
    begun = {entry.begins for entry in entries}
    return [entry for entry in entries if entry.ends not in begun]


def _streams(changes: TableChanges) -> Iterator[bytes]:
    """The changes as compressed streams of Arrow, each of bounded size."""
    kind, options = packed_type(changes.schema), pa.ipc.IpcWriteOptions(compression="zstd")
    batches = iter(changes.batches())
    following = next(batches, None)
    while following is not None:
        sink, held = pa.BufferOutputStream(), 0
        with pa.ipc.new_stream(sink, kind, options=options) as writer:
            while following is not None and held < _PART_BYTES:
                batch, flags = pack(following)
                writer.write_batch(batch, custom_metadata=flags)
                held += following.nbytes
                following = next(batches, None)
        yield bytes(sink.getvalue())


def _unpacked(schema: TableSchema, stream: bytes) -> Iterator[ChangeBatch]:
    with pa.ipc.open_stream(stream) as reader:
        for batch, metadata in reader.iter_batches_with_custom_metadata():
            yield unpack(schema, batch, metadata)
