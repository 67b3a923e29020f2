"""What is in an archive: its manifests in order, and how far they have each table."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from replicator_sdk import DDLEvent, TableId, TableSchema
from replicator_sdk.authoring.stored_form import check_form
from replicator_sdk.change_archive.checkpoints import CHECKPOINTS, NO_COPY, TableState, TableStates, checkpoint_of
from replicator_sdk.change_archive.ddl_json import event_of
from replicator_sdk.change_archive.names import FORM, MANIFESTS, OWNER, manifest_of, numbers_of
from replicator_sdk.errors import HistoryLostError, NeedsUserError, TableHistoryLostError
from replicator_source_archive.offset import ArchiveOffset

if TYPE_CHECKING:
    from collections.abc import Iterator

    from replicator_source_archive.folder import ArchiveFolder

_AT_ONCE: Final = 256


@dataclass(frozen=True, slots=True)
class Entry:
    """What was added of one table.

    Attributes:
        facts: As the manifest has them (see docs/archive.md).
        start: The offset before it.
        end: The offset after it.
    """

    facts: dict[str, Any]
    start: ArchiveOffset
    end: ArchiveOffset

    @property
    def kind(self) -> str:
        """`copy`, `changes`, `ddl`, `rename`, `end` or `break`."""
        return str(self.facts["kind"])

    @property
    def table(self) -> TableId:
        """The table; one of them in a `rename`."""
        return TableId.from_json(self.facts["table"])

    @property
    def schema(self) -> TableSchema | None:
        """The table's definition in, or after, the entry; None where it has none."""
        stored = self.facts["event"]["schema"] if self.kind == "ddl" else self.facts.get("schema")
        return stored and TableSchema.from_json(stored)

    @property
    def renames(self) -> dict[TableId, TableSchema]:
        """The former names of the tables that are renamed at once, each with the table's definition under its new one."""
        found = self.facts["renames"] if self.kind == "rename" else ()
        return {TableId.from_json(one["former"]): TableSchema.from_json(one["schema"]) for one in found}

    def event(self) -> DDLEvent:
        """The change of structure, without numbers."""
        event = event_of(self.facts["event"], base64.b64decode(self.facts["values"]), lambda _: self.start)
        return replace(event, offset=self.start, ordinal=0, sequence_number=0, position=None)


class Manifests:
    """Reads the manifests of an archive. Keeps nothing but the folder.

    Args:
        folder: The archive.
    """

    def __init__(self, folder: ArchiveFolder) -> None:
        self.folder = folder

    def owner(self) -> str:
        """The pipeline that writes the archive.

        Raises:
            NeedsUserError: RPL-3552 when there is no archive.
            ReplicatorError: As the folder fails.
        """
        try:
            found = json.loads(self.folder.read(OWNER))
        except (FileNotFoundError, ValueError):
            raise NeedsUserError(
                f"there is no archive at {self.folder.place}",
                code="RPL-3552",
                hint="set `path` of the source to the `archive.path` of a pipeline that has run",
            ) from None
        return f"{found['namespace']}/{found['name']}"

    def numbers(self) -> list[int]:
        """The numbers of all manifests, in order.

        Raises:
            ReplicatorError: As the folder fails.
        """
        return numbers_of(self.folder.names(MANIFESTS))

    def end(self) -> ArchiveOffset:
        """The offset after the last manifest.

        Raises:
            ReplicatorError: As the folder fails.
        """
        for number in reversed(self.numbers()):
            if (manifest := self.read(number)) is not None:  # the last one may be half written
                return ArchiveOffset(number + 1, 0, _micros(manifest["at"]))
        return ArchiveOffset(1)

    def read(self, number: int) -> dict[str, Any] | None:
        """A manifest; None where there is none, or where it is being written.

        Raises:
            NeedsUserError: RPL-7161 when a later release wrote it.
            ReplicatorError: As the folder fails.
        """
        try:
            return _parsed(number, self.folder.read(manifest_of(number)))
        except FileNotFoundError:
            return None

    def entries(self, number: int) -> tuple[list[Entry], ArchiveOffset] | None:
        """The entries of a manifest and the offset after it; None as `read`.

        Raises:
            ReplicatorError: As `read`.
        """
        manifest = self.read(number)
        return None if manifest is None else _entries(number, manifest)

    def check_reach(self, offset: ArchiveOffset) -> None:
        """Check that what follows `offset` is there, or comes.

        Raises:
            HistoryLostError: RPL-3554 when manifests after it were deleted, or the archive is another one.
            ReplicatorError: As `read`.
        """
        numbers = self.numbers()
        first, last = (numbers[0], numbers[-1]) if numbers else (1, 0)
        before = self.read(offset.manifest - 1) if offset.written else None
        is_other = before is not None and _micros(before["at"]) != offset.written
        if first <= offset.manifest <= last + 1 and not is_other and (not offset.entry or offset.manifest <= last):
            return
        raise HistoryLostError(
            f"the archive at {self.folder.place} has the manifests {first} to {last}"
            + (", and is not the one that was read before" if is_other else ", and not what follows the saved offset"),
            code="RPL-3554",
            hint="let `archive.keepDays` be longer than this pipeline is ever stopped; `replicator heal PIPELINE` compares the tables and goes on,"
            " `replicator reset PIPELINE` and a run copy them again",
            position=str(offset),
        )

    def history(self, until: ArchiveOffset | None = None, since: ArchiveOffset | None = None) -> Iterator[Entry]:
        """All entries that are there, in order.

        Args:
            until: Ends before the entry that begins there.
            since: Begins with the entry that begins there; manifests before it are not read.

        Raises:
            NeedsUserError: RPL-3555 when a manifest in between is missing or damaged.
            ReplicatorError: As `read`.
        """
        listed = self.numbers()
        first_wanted = max(listed[0], 0 if since is None else since.manifest) if listed else 0
        numbers = range(first_wanted, listed[-1] + 1) if listed else range(0)
        for first in range(0, len(numbers), _AT_ONCE):
            some = numbers[first : first + _AT_ONCE]
            for number, content in zip(some, self.folder.read_all([manifest_of(n) for n in some]), strict=True):
                manifest = content and _parsed(number, content)
                if not manifest:
                    self._check_gap(number, listed[-1])
                    continue
                for entry in _entries(number, manifest)[0]:
                    if until is not None and not entry.start < until:
                        return
                    if since is None or not entry.start < since:
                        yield entry

    def states(self, until: ArchiveOffset | None = None) -> TableStates:
        """The tables that there are before the entry that begins at `until`, or at the archive's end.

        The manifests after the last checkpoint are read, and not those before it.

        Raises:
            ReplicatorError: As `history`.
        """
        states = self._checkpoint(until)
        for entry in self.history(until, ArchiveOffset(states.number + 1)):
            states.take(entry.facts, entry.start.manifest, entry.start.entry)
        return states

    def _checkpoint(self, until: ArchiveOffset | None) -> TableStates:
        found = numbers_of(self.folder.names(CHECKPOINTS))
        last = max(self.numbers(), default=0) if until is None else until.manifest - 1
        for number in reversed([number for number in found if number <= last]):
            [content] = self.folder.read_all([checkpoint_of(number)])
            if content is not None and (states := TableStates.of(content)) is not None:
                return states
        return TableStates()

    def tables(self, until: ArchiveOffset | None = None) -> dict[TableId, TableState]:
        """The same, where a table of which the copy was deleted for its age lacks rows.

        Raises:
            ReplicatorError: As `history`.
        """
        found, first = self.states(until).tables, min(self.numbers(), default=1)
        for state in found.values():
            if state.manifest < first:
                state.manifest, state.why = 0, state.why or NO_COPY
        return found

    def entries_of(self, table: TableId, state: TableState, until: ArchiveOffset) -> list[Entry]:
        """The table's entries before `until`: its last copy and all that follows it; what follows the last break, where it is incomplete."""
        since = ArchiveOffset(state.manifest, state.entry) if state.manifest else None
        return tables_of(self.history(until, since))[table].entries

    def check_next(self, number: int) -> None:
        """Check that a manifest which cannot be read is being written, or comes: none after it is there.

        Raises:
            NeedsUserError: RPL-3555 when it is missing or damaged.
            ReplicatorError: As `read`.
        """
        last = max(self.numbers(), default=0)
        if self.read(number) is None:
            self._check_gap(number, last)

    def _check_gap(self, number: int, last: int) -> None:
        """Check that a manifest which cannot be read is being written, or was deleted for its age meanwhile."""
        if number < last and number >= self.numbers()[0]:
            raise NeedsUserError(
                f"the file {manifest_of(number)} of the archive at {self.folder.place} is missing or damaged",
                code="RPL-3555",
                hint="put it back from a backup; without one, have a new archive written (another `archive.path` of the pipeline that writes it),"
                " give the source that `path`, and have every table copied again: `replicator reset PIPELINE`",
            )


@dataclass(slots=True)
class TableHistory:
    """How the archive has one table.

    Attributes:
        schema: Its definition now; None when no entry says it.
        entries: The last copy and all that follows it; what follows the last break, where it is incomplete.
        why: Why its rows are not all there; empty when they are.
    """

    schema: TableSchema | None = None
    entries: list[Entry] = field(default_factory=list)
    why: str = ""


def tables_of(entries: Iterator[Entry]) -> dict[TableId, TableHistory]:
    """The tables that there are after these entries, by name."""
    tables: dict[TableId, TableHistory] = {}
    for entry in entries:
        table = entry.table
        if entry.kind == "end":
            tables.pop(table, None)
            continue
        if entry.kind == "rename":
            _rename(tables, entry)
            continue
        known = tables.setdefault(table, TableHistory(why=NO_COPY))
        known.schema = entry.schema or known.schema
        if entry.kind == "copy":
            known.entries, known.why = [entry], ""
        elif entry.kind == "break":
            known.entries, known.why = [], str(entry.facts["why"])
        else:
            known.entries.append(entry)
    return tables


def _rename(tables: dict[TableId, TableHistory], entry: Entry) -> None:
    renames = entry.renames
    moved = {former: tables.pop(former) for former in renames if former in tables}
    for former, schema in renames.items():
        known = moved.get(former, TableHistory(why=NO_COPY))
        known.schema = schema
        known.entries.append(entry)
        tables[schema.table] = known


def damaged(folder: ArchiveFolder, name: str, table: TableId, position: ArchiveOffset) -> TableHistoryLostError:
    """The error for a file of a table's rows that is missing or not as its manifest says.

    Args:
        folder: The archive.
        name: The file, or the files of one entry.
        table: The table, as it is called at `position`.
        position: The offset before the entry.
    """
    return TableHistoryLostError(
        f"the file {name} of the archive at {folder.place} is missing or damaged",
        code="RPL-3555",
        hint="put it back from a backup, or copy the table again in the pipeline that writes the archive (`replicator table resync`); then"
        " `replicator table retry NAME TABLE`: it begins with its newest copy there",
        table=str(table),
        position=str(position),
    )


def _parsed(number: int, content: bytes) -> dict[str, Any] | None:
    """A manifest; None where only a part of it is written."""
    try:
        manifest: dict[str, Any] = json.loads(content)
    except ValueError:
        return None
    check_form(f"the archive's manifest {number}", manifest["version"], FORM, manifest["release"])
    return manifest


def _entries(number: int, manifest: dict[str, Any]) -> tuple[list[Entry], ArchiveOffset]:
    at, facts = _micros(manifest["at"]), manifest["entries"]
    after = ArchiveOffset(number + 1, 0, at)
    starts = [ArchiveOffset(number, index) for index in range(len(facts))]
    pairs = zip(facts, starts, [*starts[1:], after], strict=True) if facts else ()
    return [Entry(one, start, end) for one, start, end in pairs], after


def _micros(seconds: float) -> int:
    return round(seconds * 1_000_000)
