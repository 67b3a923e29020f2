"""What is known of a table at one version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from replicator_target_delta.file_index.file_index import FileIndex
from replicator_target_delta.files.storage import Stamp
from replicator_target_delta.schema.file_size import target_file_size
from replicator_target_delta.schema.types import Layout


@dataclass(slots=True)
class State:
    """A table at one version.

    Attributes:
        version: The version; -1 when there is no table.
        metadata: Content of its `metaData` action.
        layout: Its columns.
        files: Its data files.
        stored: What our domain holds, parsed; None when it was never ours.
        key: The physical names of its key's columns, once changes were applied; the log does not say them.
        stamp: Of the version's commit file; None where it is not known, or the file is gone.
        unmatched: What is stored of removals whose rows are not there yet (`UnmatchedRows`), of a table of versions what is stored of a
            copy that is not finished (`versions.copying`); empty for none.
    """

    version: int
    metadata: dict[str, Any]
    layout: Layout
    files: FileIndex
    stored: dict[str, Any] | None
    key: tuple[str, ...] = ()
    stamp: Stamp | None = None
    unmatched: str = ""

    @property
    def file_bytes(self) -> int | None:
        """How large the table's owner wants its files; None where the table does not say."""
        return target_file_size(self.metadata)

    def written_bytes(self, most: int) -> int:
        """How large new files are: no more than `most`, since a file is made in memory; less where the table wants that."""
        return min(most, self.file_bytes or most)
