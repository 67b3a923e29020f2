"""Reads a table's rows for its copy without those that are put aside, after reading them all at once has failed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from replicator_runtime.dead_letter import Letter, Letters, key_texts, row_text
from replicator_sdk.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from replicator_sdk import MarkedChunkReader, Refusal, SnapshotChunk, TableSchema, TableSnapshot

_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class FittingReader:
    """A `ChunkReader` of what may be loaded; picklable with the reader that it wraps.

    Attributes:
        read: The source's.
        schema: The table.
        puts_aside: Whether rows with refused values are left out; else these values are NULL.
    """

    read: MarkedChunkReader
    schema: TableSchema
    puts_aside: bool

    def __call__(self, chunk: SnapshotChunk) -> Iterator[pa.RecordBatch]:
        """The rows of `chunk`.

        Raises:
            DataError: When a value is refused of a column that cannot be NULL and rows are not put aside, or of a key.
        """
        for rows, refused in self.read(chunk):
            if self.puts_aside:
                yield rows.filter(pa.array(~_any(rows.num_rows, refused))) if refused else rows
            else:
                self._check(refused)
                yield rows

    def _check(self, refused: Mapping[str, Refusal]) -> None:
        for name, refusal in refused.items():
            if not self.schema[name].nullable:
                raise DataError(
                    refusal.what,
                    code=refusal.code,
                    table=str(self.schema.table),
                    hint="the column cannot be NULL, so `onDataError: null` does not apply: fix the rows at the source",
                )


def letters_of_chunks(
    snapshot: TableSnapshot, chunks: Sequence[SnapshotChunk], most: int, check_stop: Callable[[], None]
) -> Letters:
    """The letters of the rows that a `FittingReader` leaves out of `chunks`. Reads them in this process, several at once.

    Args:
        snapshot: Open, of a table with a key, with `read_marked`.
        chunks: What to read.
        most: Of more letters no more is read.
        check_stop: Raises when the copy is to end.
    """
    letters: Letters = {}

    def read(chunk: SnapshotChunk) -> None:
        assert snapshot.read_marked is not None
        for rows, refused in snapshot.read_marked(chunk):
            check_stop()
            if refused and len(letters) <= most:
                letters.update(_letters(snapshot, rows, refused))

    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="letters") as pool:
        futures = [pool.submit(read, chunk) for chunk in chunks]
        try:
            for future in futures:
                future.result()
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return letters


def _letters(snapshot: TableSnapshot, rows: pa.RecordBatch, refused: Mapping[str, Refusal]) -> Letters:
    index = np.flatnonzero(_any(rows.num_rows, refused))
    chosen = rows.take(pa.array(index))
    texts = key_texts([chosen.column(name) for name in snapshot.schema.primary_key])
    keys = list(zip(*(text.to_pylist() for text in texts), strict=True))
    found = zip(index.tolist(), keys, chosen.to_pylist(), strict=True)
    return {key: _letter(snapshot, row, key, values, refused) for row, key, values in found}


def _letter(
    snapshot: TableSnapshot,
    row: int,
    key: tuple[str | None, ...],
    values: dict[str, Any],
    refused: Mapping[str, Refusal],
) -> Letter:
    columns = tuple(name for name, refusal in refused.items() if refusal.mask[row].as_py())
    first = refused[columns[0]]
    position = str(snapshot.position)
    return Letter(key, "COPY", columns, first.code, first.what, position, 0, -1, 1, row_text(values))


def _any(rows: int, refused: Mapping[str, Refusal]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which rows have a refused value."""
    mask = np.zeros(rows, np.bool_)
    for refusal in refused.values():
        mask |= refusal.mask.to_numpy(zero_copy_only=False)
    return mask
