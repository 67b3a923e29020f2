"""Changes of one table that wait for its next load, in a file of this process's own."""

from __future__ import annotations

import contextlib
import pickle
import tempfile
from collections.abc import Iterator
from dataclasses import replace

from replicator_sdk.batch import ChangeBatch, TableChanges
from replicator_sdk.offset import Position
from replicator_sdk.schema import TableSchema


class HeldChanges:
    """Batches that follow each other, and are applied as one. Used by one thread at a time.

    The runtime's batches may not be kept, so they are copied; the file is deleted with the process or by `close`.

    Args:
        changes: The first of them; it is added like those that follow.

    Attributes:
        nbytes: How many bytes they have, about.
    """

    def __init__(self, changes: TableChanges) -> None:
        self._kind = _kind(changes)
        self._identity = changes.identity
        self._file = tempfile.TemporaryFile(prefix="replicator-bigquery-")  # noqa: SIM115 - open as long as this object
        self._rows = self._count = 0
        self.nbytes = 0
        self._inserts_only, self._source_timestamp = True, -1

    @property
    def position(self) -> Position:
        """The table's position once they are applied."""
        return self._identity.position

    def takes(self, changes: TableChanges) -> bool:
        """Whether these changes can be applied together with those that are held."""
        return self._kind == _kind(changes)

    def add(self, changes: TableChanges) -> None:
        """Hold a copy of the changes, which follow those that are held."""
        for batch in changes.batches():
            pickle.dump(batch, self._file, protocol=5)
            self._count += 1
        self._file.flush()
        self._rows += changes.rows
        self.nbytes += changes.nbytes
        self._inserts_only &= changes.inserts_only or changes.rows == 0
        self._source_timestamp = max(self._source_timestamp, changes.source_timestamp)
        self._identity = replace(changes.identity, first_sequence=self._identity.first_sequence)

    def together(self) -> TableChanges:
        """All of them as one batch, valid until `close`."""
        schema, overlap, drops_lost_updates, unordered = self._kind
        return TableChanges(
            schema,
            self._identity,
            self._read,
            rows=self._rows,
            nbytes=self.nbytes,
            overlap=overlap,
            drops_lost_updates=drops_lost_updates,
            inserts_only=self._inserts_only,
            source_timestamp=self._source_timestamp,
            unordered=unordered,
        )

    def close(self) -> None:
        """Delete them."""
        with contextlib.suppress(OSError):  # of a full disk, once more
            self._file.close()

    def _read(self) -> Iterator[ChangeBatch]:
        self._file.seek(0)
        for _ in range(self._count):
            batch: ChangeBatch = pickle.load(self._file)  # noqa: S301 - written by this object
            yield batch


def _kind(changes: TableChanges) -> tuple[TableSchema, bool, bool, bool]:
    """What all batches that are applied together have in common."""
    return changes.schema, changes.overlap, changes.drops_lost_updates, changes.unordered
