"""Compares rows as they are to be with the current versions of a table: ends what differs and what is gone, opens what is to be there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replicator_sdk.batch import TableChanges, combined
from replicator_sdk.event import DMLOperation
from replicator_sdk.net_change import encode_rows as code_rows
from replicator_sdk.row_versions.opening import Add, CurrentVersions
from replicator_sdk.row_versions.version_columns import VersionColumns

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
File = TypeVar("File")
Encode = Callable[[pa.Table], pa.Table]


@dataclass(frozen=True, slots=True)
class Ending:
    """What ends versions.

    Attributes:
        number: A number above all in the table.
        time: When; microseconds since 1970 UTC.
    """

    number: int
    time: int


class ComparedTable(ABC):
    """A table of versions, some of which end; used by one thread."""

    @abstractmethod
    def find_current(self, keys: pa.Table) -> Iterator[CurrentVersions]:
        """As `VersionedTable.find_current`."""

    @abstractmethod
    def every_current(self) -> Iterator[tuple[Hashable, Int64s]]:
        """Where all current versions are, file by file."""

    @abstractmethod
    def rows_at(self, file: Hashable, places: Int64s) -> pa.Table:
        """Versions of a file, all columns, by their ascending places."""

    @abstractmethod
    def remove(self, file: Hashable, places: Int64s) -> None:
        """As `VersionedTable.remove`."""


class Difference(Generic[File]):
    """What one commit changes; made for it, used once, by one thread. Versions that equal the rows to be stay as they are.

    Args:
        table: The table.
        columns: Its columns, in whose form rows are given and written.
        keys: The names of its key, as the files have them.
        compared: Those of the columns that versions are compared by.
        ending: What ends versions.
        current: Takes current versions.
        past: Takes ended ones.

    Attributes:
        whole: The files that were given with rows of which all are opened: the table gets these files.
    """

    def __init__(
        self,
        table: ComparedTable,
        columns: VersionColumns,
        keys: Sequence[str],
        compared: Sequence[str],
        ending: Ending,
        current: Add,
        past: Add,
    ) -> None:
        self._table, self._columns, self._keys, self._compared = table, columns, list(keys), list(compared)
        self._ending, self._current, self._past = ending, current, past
        self._seen: dict[Hashable, Bools] = {}
        self.whole: list[File] = []

    def take(self, rows: pa.Table, written: File | None = None) -> None:
        """Have the table hold `rows`. A version that another one of its key gives way to begins no earlier than that did.

        Args:
            rows: Of distinct keys, as current versions in the table's form.
            written: A file that holds just them, and that no commit names yet; None for none.
        """
        if not rows.num_rows:
            return
        opened, floors = np.ones(rows.num_rows, np.bool_), self._columns.starts(rows)
        before = floors.copy()
        for match in self._find(rows.select(self._keys)):
            new = rows.take(pa.array(match.keys))
            free = ~self._is_seen(match.file, match.places)
            same = self._equal(match.rows, new) & free & opened[match.keys]
            _, first = np.unique(match.keys[same], return_index=True)
            stays = np.zeros(len(same), np.bool_)
            stays[np.flatnonzero(same)[first]] = True
            opened[match.keys[stays]] = False
            goes = np.flatnonzero(free & ~stays)
            self._note(match.file, match.places)
            self._end(match, goes, before[match.keys[goes]])
            begun = self._columns.starts(match.rows)
            np.maximum.at(floors, match.keys[goes], begun[goes])
        if written is not None and opened.all() and (floors == before).all():
            self.whole.append(written)
        else:
            self._current(self._columns.beginning(rows, floors).filter(pa.array(opened)))

    def repair(self, changes: TableChanges, encode_keys: Encode, encode: Encode) -> None:
        """Have the table hold the rows of INSERTs, and no row of the keys of DELETEs.

        Args:
            changes: As `RepairableConsumer.repair_rows` gets them.
            encode_keys: Gives columns of the key, in its order, the form that the table's files have.
            encode: Gives rows of the source the form of current versions; a row that is opened begins as this says.
        """
        key = list(changes.schema.primary_key)
        for batch in changes.batches():
            deleted = batch.op.to_numpy(zero_copy_only=False) == DMLOperation.DELETE
            if deleted.any():
                assert batch.before is not None
                which = pa.array(np.flatnonzero(deleted))
                self.end(encode_keys(pa.table([batch.before.field(name).take(which) for name in key], names=key)))
            rows = pa.Table.from_arrays(batch.row.flatten(), schema=changes.schema.arrow)
            self.take(encode(rows.filter(pa.array(~deleted))))

    def end(self, keys: pa.Table) -> None:
        """Have the table hold no row of `keys`, which are distinct."""
        for match in self._find(keys):
            goes = np.flatnonzero(~self._is_seen(match.file, match.places))
            self._note(match.file, match.places)
            self._end(match, goes, np.full(len(goes), self._ending.time, np.int64))

    def end_others(self) -> None:
        """End the current versions of all other keys."""
        for file, places in self._table.every_current():
            left = places[~self._is_seen(file, places)]
            if len(left):
                rows = self._table.rows_at(file, left)
                self._table.remove(file, left)
                self._past(self._ended(rows, np.full(len(left), self._ending.time, np.int64)))

    def _find(self, keys: pa.Table) -> Sequence[CurrentVersions]:
        # All of them before anything is removed.
        return list(self._table.find_current(keys.combine_chunks())) if keys.num_rows else []

    def _end(self, match: CurrentVersions, goes: Int64s, times: Int64s) -> None:
        """End the versions at some places of a match."""
        if len(goes):
            self._table.remove(match.file, match.places[goes])
            self._past(self._ended(match.rows.take(pa.array(goes)), times))

    def _ended(self, rows: pa.Table, times: Int64s) -> pa.Table:
        return self._columns.ended(rows, np.full(rows.num_rows, self._ending.number, np.int64), times)

    def _equal(self, old: pa.Table, new: pa.Table) -> Bools:
        """Row by row: NULL equals NULL, NaN equals NaN."""
        equal = np.ones(old.num_rows, np.bool_)
        for name in self._compared:
            codes, _ = code_rows([pa.concat_arrays([combined(old.column(name)), combined(new.column(name))])])
            equal &= codes[: old.num_rows] == codes[old.num_rows :]
        return equal

    def _is_seen(self, file: Hashable, places: Int64s) -> Bools:
        seen = self._seen.get(file, np.zeros(0, np.bool_))
        found = np.zeros(len(places), np.bool_)
        known = places < len(seen)
        found[known] = seen[places[known]]
        return found

    def _note(self, file: Hashable, places: Int64s) -> None:
        seen = self._seen.get(file, np.zeros(0, np.bool_))
        most = int(places.max(initial=-1)) + 1
        if most > len(seen):
            seen = np.append(seen, np.zeros(most - len(seen), np.bool_))
        seen[places] = True
        self._seen[file] = seen
