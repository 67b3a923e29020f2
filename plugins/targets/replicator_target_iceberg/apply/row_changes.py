"""What an apply does to a table's files: new ones, and which rows of the old ones go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from replicator_target_iceberg.files.data_file import NewFile
from replicator_target_iceberg.files.deleted_rows import write_deletion_vectors, write_position_deletes
from replicator_target_iceberg.files.live_files import DeleteRef, LiveFile, LiveFiles
from replicator_target_iceberg.files.storage import Storage
from replicator_target_iceberg.log.change import Change

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Removal:
    """Rows of one file that go.

    Attributes:
        file: The file.
        gone: Indexes of the rows that were gone before.
        places: Indexes of those that go now.
    """

    file: LiveFile
    gone: Int64s
    places: Int64s


@dataclass(slots=True)
class RowChanges:
    """Files that were written, in effect once a commit names them.

    Attributes:
        add: New data files.
        remove: Data files that have lost their last row.
        old_deletes: What is replaced of what says which rows are gone.
        new_deletes: By data file, what takes its place.
        kept: By data file, what stays of it.
        highest: The highest sequence number of new rows, where the table numbers them itself.
        whole: Which of `add` were there already, though not in the table.
    """

    add: list[NewFile] = field(default_factory=list)
    remove: list[LiveFile] = field(default_factory=list)
    old_deletes: list[DeleteRef] = field(default_factory=list)
    new_deletes: dict[str, DeleteRef] = field(default_factory=dict)
    kept: dict[str, tuple[DeleteRef, ...]] = field(default_factory=dict)
    highest: int = 0
    whole: set[str] = field(default_factory=set)

    @property
    def own(self) -> list[str]:
        """Where the files are that were written for these changes."""
        return [location for location in self.written if location not in self.whole]

    @property
    def written(self) -> list[str]:
        """Where all new files are."""
        return [f.location for f in self.add] + list({ref.location for ref in self.new_deletes.values()})

    def give(self, change: Change) -> None:
        """Give the files to a commit."""
        if self.remove or self.new_deletes:
            change.change_rows(self.add, self.remove, self.old_deletes, self.new_deletes.values())
        else:
            change.append(self.add)

    def joined(self, later: RowChanges) -> tuple[RowChanges, list[str]]:
        """The changes of both for one commit, and where the files are that it does not need.

        Args:
            later: What was made of the files that are there after these changes.
        """
        added = {file.location for file in self.add}
        own = set(self.new_deletes.values())
        gone = {file.location for file in later.remove}
        stays = {name: ref for name, ref in self.new_deletes.items() if name not in gone}
        both = RowChanges(
            [*(file for file in self.add if file.location not in gone), *later.add],
            [*self.remove, *(file for file in later.remove if file.location not in added)],
            [*self.old_deletes, *(ref for ref in later.old_deletes if ref not in own)],
            {**stays, **later.new_deletes},
            {**{name: self.kept[name] for name in stays}, **later.kept},
            max(self.highest, later.highest),
        )
        return both, sorted({*self.written} - {*both.written})

    def touched(self) -> set[str]:
        """The data files of before that go, or that lose rows."""
        return {file.location for file in self.remove} | (self.new_deletes.keys() - {f.location for f in self.add})

    def after(self, files: LiveFiles) -> LiveFiles:
        """The table's files once they are committed."""
        deletes = {name: (*self.kept[name], ref) for name, ref in self.new_deletes.items()}
        return files.changed(self.add, [f.location for f in self.remove], deletes)


def take_out(storage: Storage, removals: Sequence[Removal], format_version: int, changes: RowChanges) -> None:
    """Write what says that rows are gone: for each file one that says all of it, which takes the place of the earlier ones.

    It is in the data file's partition, by the specification that the file was written with. What is about several data files stays: other programs write such files in format 2.
    """
    vectors: dict[str, Int64s] = {}
    for removal in removals:
        if not len(removal.places):
            continue
        file = removal.file
        gone = np.union1d(removal.gone, removal.places)
        own = [ref for ref in file.deletes if ref.data_file]
        if len(gone) >= file.rows:
            changes.remove.append(file)
            changes.old_deletes += own
            continue
        changes.old_deletes += own
        changes.kept[file.location] = tuple(ref for ref in file.deletes if not ref.data_file)
        if format_version >= 3:
            vectors[file.location] = gone
        else:
            changes.new_deletes[file.location] = write_position_deletes(storage, file.location, gone)
    if vectors:
        changes.new_deletes.update(write_deletion_vectors(storage, vectors))
    for removal in removals:
        if (ref := changes.new_deletes.get(removal.file.location)) is not None:
            changes.new_deletes[removal.file.location] = replace(ref, partition=removal.file.partition)
