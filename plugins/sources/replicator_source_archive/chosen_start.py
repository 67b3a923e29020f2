"""Finds where a first start begins that copies no rows, and which columns the tables had there."""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Self

from replicator_sdk.errors import HistoryLostError, NeedsUserError
from replicator_sdk.schema import TableId, TableSchema
from replicator_source_archive.config import Incomplete
from replicator_source_archive.offset import ArchiveOffset

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from replicator_sdk.source import StartFrom
    from replicator_source_archive.manifests import Entry, Manifests

_PLACE: Final = re.compile(r"(\d{1,15})/(\d{1,9})")
_CLOCKS_DIFFER: Final = 3_600_000_000
"""Microseconds by which the database's clock may be ahead of the clock of the run that wrote the archive."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Why a table cannot begin at a position, and from where it can; None where that is not known."""

    table: TableId
    why: str
    later: ArchiveOffset | None

    def rank(self) -> tuple[bool, ArchiveOffset]:
        """Where the table with the highest one can begin, the others can, too."""
        return self.later is None, self.later or ArchiveOffset(0)

    def error(self) -> NeedsUserError:
        instead = "remove `from`: then the pipeline begins now"
        if self.later is not None:
            instead = f'begin at `"from": {{"offset": "{self.later}"}}`'
        return NeedsUserError(
            f"the table cannot begin there: {self.why}",
            code="RPL-3563",
            table=str(self.table),
            hint=f"{instead}; or leave it out of `tables`",
        )


@dataclass(frozen=True, slots=True)
class _After:
    """What follows a position; each with the offset after the entry.

    Attributes:
        renamed: The tables that got their names there, by the last entry that gave it.
        first: By table, the first entry that has its columns.
        copied: By table, its first copy.
    """

    renamed: dict[TableId, ArchiveOffset] = field(default_factory=dict)
    first: dict[TableId, ArchiveOffset] = field(default_factory=dict)
    copied: dict[TableId, ArchiveOffset] = field(default_factory=dict)

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Self:
        """Of the entries from that position on."""
        found = cls()
        for entry in entries:
            if entry.kind == "rename":
                found.renamed.update((schema.table, entry.end) for schema in entry.renames.values())
                continue
            if entry.kind == "copy":
                found.copied.setdefault(entry.table, entry.end)
            if entry.kind != "end" and entry.table not in found.first and entry.schema is not None:
                found.first[entry.table] = entry.end
        return found


@dataclass(frozen=True, slots=True)
class ChosenStart:
    """A first start in an archive; changes nothing.

    Attributes:
        manifests: The archive.
    """

    manifests: Manifests

    # ------------------------------------------------------------ the position

    def find(self, start: StartFrom) -> ArchiveOffset:
        """The offset that `start` names.

        By a time it is the one before the first entry with a change that was committed then or later. An entry is a batch of the
        other pipeline and has the time of its newest change only, so some changes before that moment may be read, too.

        Raises:
            NeedsUserError: RPL-3561 for what is no position, RPL-3562 when it is after the archive's end.
            HistoryLostError: RPL-3554 when the archive does not reach back to it.
            ReplicatorError: As the archive fails.
        """
        end, numbers = self.manifests.end(), self.manifests.numbers()
        if start.time is not None:
            if start.time > datetime.now(UTC):
                raise _too_late(start, "that moment has not come", end)
            return self._before(start, round(start.time.timestamp() * 1_000_000), numbers, end)
        place = _PLACE.fullmatch(start.offset)
        if place is None:
            raise NeedsUserError(
                f"{start.offset[:80]!r} is no position of an archive",
                code="RPL-3561",
                hint='write `"from": {"offset": "120/0"}`: before the first entry of the manifest 120',
            )
        number, entry = map(int, place.groups())
        if not numbers or number < numbers[0]:
            raise self._not_reached(start, numbers)
        there = self.manifests.entries(number)
        if ArchiveOffset(number, entry) > end or entry > (0 if there is None else len(there[0])):
            raise _too_late(start, "the archive has no such entry", end)
        return self._offset(number, entry)

    def _before(self, start: StartFrom, moment: int, numbers: list[int], end: ArchiveOffset) -> ArchiveOffset:
        # What was committed before the archive began is not known.
        if not numbers or self._written(numbers[0]) >= moment:
            raise self._not_reached(start, numbers)
        first = max(0, bisect_left(numbers, moment - _CLOCKS_DIFFER, key=self._written) - 1)
        begin = self._offset(numbers[first], 0)
        for number in numbers[first:]:
            found = self.manifests.entries(number)
            if found is None:
                self.manifests.check_next(number)
                break
            entries, after = found
            for entry in entries:
                committed = entry.facts.get("committedAt", -1)
                if committed >= moment:
                    return begin
                # Only changes have a time of their own.
                if (committed if committed >= 0 else after.written) < moment:
                    begin = entry.end
        return end

    def _offset(self, number: int, entry: int) -> ArchiveOffset:
        return ArchiveOffset(number, entry, self._written(number - 1))

    def _written(self, number: int) -> int:
        """When a manifest was written; 0 where there is none."""
        found = self.manifests.entries(number)
        return 0 if found is None else found[1].written

    def _not_reached(self, start: StartFrom, numbers: list[int]) -> HistoryLostError:
        earliest = (
            f'begin at `"from": {{"offset": "{numbers[0]}/0"}}`, the earliest position that it has; ' if numbers else ""
        )
        return HistoryLostError(
            f"the archive at {self.manifests.folder.place} does not have the changes from {start} on",
            code="RPL-3554",
            hint=f"{earliest}or remove `from`: then the pipeline begins now",
        )

    # ------------------------------------------------------------ the tables there

    def tables_at(
        self,
        offset: ArchiveOffset,
        tables: Sequence[TableSchema],
        narrowed: Collection[TableId],
        incomplete: Incomplete,
    ) -> dict[TableId, TableSchema]:
        """The tables as they were at `offset`; reads all manifests after it.

        Raises:
            NeedsUserError: RPL-3563 for a table whose columns there are not known, or of whose changes after it some are not there:
                of several the one that can begin last.
            ReplicatorError: As the archive fails.
        """
        before, after = self.manifests.states(offset).tables, _After.of(self.manifests.history(since=offset))
        found, refused = {}, []
        for schema in tables:
            table, known = schema.table, before.get(schema.table)
            former = None if known is None or known.schema is None else TableSchema.from_json(known.schema)
            if (later := after.renamed.get(table)) is not None:
                refused.append(_Refusal(table, "it had another name", later))
            elif known is None or former is None:
                refused.append(_Refusal(table, "the archive does not have it there", after.first.get(table)))
            elif known.is_broken and incomplete is Incomplete.FAIL:
                why = f"changes are missing after it: {known.why}"
                refused.append(_Refusal(table, why, after.copied.get(table)))
            elif table in narrowed and not set(schema.names) <= set(former.names):
                refused.append(_Refusal(table, "it did not have all columns that the pipeline selects", None))
            else:
                found[table] = former.select(schema.names) if table in narrowed else former
        if refused:
            raise max(refused, key=_Refusal.rank).error()
        return found


def _too_late(start: StartFrom, why: str, end: ArchiveOffset) -> NeedsUserError:
    return NeedsUserError(
        f"no run can begin at {start}: {why}",
        code="RPL-3562",
        hint=f'`snapshot.from`: give "{end}", the end of the archive, or an earlier position; without `from` the pipeline begins now',
    )
