"""Changes of one table that wait for its next load, in a file of this process's own."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterator
from dataclasses import replace

from replicator_sdk.batch import ChangeBatch, TableChanges


class HeldChanges:
    """Batches that follow each other, and are applied as one. Used by one thread at a time.

    The runtime's batches may not be kept, so they are copied; the file is deleted with the process or by `close`.

    Args:
        first: The first of them.

    Attributes:
        nbytes: How many bytes they have, about.
        position: The table's position once they are applied.
    """

    def __init__(self, first: TableChanges) -> None:
        self._first = first
        self._file = tempfile.TemporaryFile(prefix="replicator-bigquery-")  # noqa: SIM115 - open as long as this object
        self._identity = first.identity
        self._rows = self._count = 0
        self.nbytes = 0
        self._inserts_only, self._source_timestamp = True, -1
        self.position = first.identity.position
        self.add(first)

    def takes(self, changes: TableChanges) -> bool:
        """Whether these changes can be applied together with those that are held."""
        first = self._first
        kind = (first.schema, first.overlap, first.drops_lost_updates)
        return kind == (changes.schema, changes.overlap, changes.drops_lost_updates)

    def add(self, changes: TableChanges) -> None:
        """Hold a copy of the changes, which follow those that are held."""
        for batch in changes.batches():
            pickle.dump(batch, self._file, protocol=5)
            self._count += 1
        self._rows += changes.rows
        self.nbytes += changes.nbytes
        self._inserts_only &= changes.inserts_only or changes.rows == 0
        self._source_timestamp = max(self._source_timestamp, changes.source_timestamp)
        self._identity = replace(changes.identity, first_sequence=self._identity.first_sequence)
        self.position = changes.identity.position

    def together(self) -> TableChanges:
        """All of them as one batch, valid until `close`."""
        return TableChanges(
            self._first.schema,
            self._identity,
            self._read,
            rows=self._rows,
            nbytes=self.nbytes,
            overlap=self._first.overlap,
            drops_lost_updates=self._first.drops_lost_updates,
            inserts_only=self._inserts_only,
            source_timestamp=self._source_timestamp,
        )

    def close(self) -> None:
        """Delete them."""
        self._file.close()

    def _read(self) -> Iterator[ChangeBatch]:
        self._file.seek(0)
        for _ in range(self._count):
            batch: ChangeBatch = pickle.load(self._file)  # noqa: S301 - written by this object
            yield batch
