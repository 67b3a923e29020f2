"""The files that take the place of matched ones: the same data, with longer deletion vectors."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from replicator_target_delta.file_index.file_index import FileIndex, LiveFile
from replicator_target_delta.files.deletion_vector import DeletionVectorFile, read_deletion_vector
from replicator_target_delta.files.live_files import DataFile
from replicator_target_delta.files.storage import Storage


@dataclass(slots=True)
class FileChanges:
    """What a commit does to the table's files.

    Attributes:
        add: New files, and old ones under a longer deletion vector.
        remove: Files that go, and old ones under their former vector.
        rows_removed: How many rows go.
    """

    add: list[DataFile] = field(default_factory=list)
    remove: list[DataFile] = field(default_factory=list)
    rows_removed: int = 0


Found = list[tuple[LiveFile, int, npt.NDArray[np.int64]]]
"""Rows that go: for each file its number of rows and their ascending indexes."""


@dataclass(frozen=True, slots=True)
class Written:
    """What an apply wrote and what it takes away, before any file has another deletion vector.

    Attributes:
        add: New files.
        removed: Rows that go from the files there were.
    """

    add: list[DataFile]
    removed: Found

    def to_changes(self, storage: Storage, files: FileIndex) -> FileChanges:
        """The same with the deletion vectors written; in effect once committed.

        Args:
            storage: The table's files.
            files: The version in which the rows were found.
        """
        changes = FileChanges(add=self.add)
        _mark_removed(storage, files, [found for found in self.removed if len(found[2])], changes)
        return changes


def _mark_removed(storage: Storage, files: FileIndex, found: Found, changes: FileChanges) -> None:
    """Take rows out of files; durable on return, in effect once `changes` are committed.

    Args:
        storage: The table's files.
        files: The version in which the rows were found.
        found: For each file its number of rows and the row indexes that go; none of them gone before.
        changes: Is added to. A file that loses its last row goes whole.
    """
    vectors = DeletionVectorFile()
    actions = files.actions(live for live, _, _ in found)
    for file, (live, rows, positions) in zip(actions, found, strict=True):
        gone = read_deletion_vector(storage, live.vector)
        gone.update(BitMap64(positions.astype(np.uint64)))
        changes.remove.append(file)
        changes.rows_removed += len(positions)
        if len(gone) < rows:
            changes.add.append(file.with_vector(vectors.add(gone)))
    vectors.write(storage)
