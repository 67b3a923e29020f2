"""What a target says of what it stores of a table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TableStorage:
    """What the newest version of a table at the target consists of; what the target does not know without asking is None.

    Reported by `Metrics.stored` after a commit, and when the table is read for the first time; each time replaces the one before.

    Attributes:
        files: Data files.
        nbytes: Bytes of these; those of files that say which rows are deleted may be among them.
        rows: Rows in these files, those that are deleted and still stored included.
        deleted_rows: How many of these no reader sees any more, until maintenance writes their files again: the delete debt. Rows that
            are marked as deleted in a column are not deleted.
    """

    files: int | None = None
    nbytes: int | None = None
    rows: int | None = None
    deleted_rows: int | None = None
