"""Writes rows to new data files while more rows are being made ready."""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa

from replicator_target_delta.files.data_file import write_data_file
from replicator_target_delta.files.live_files import DataFile
from replicator_target_delta.files.storage import Storage

_WRITERS: Final = 2


class FileWriter:
    """Gathers rows into files of about `target_bytes`; used by one thread, writes in others.

    Holds at most a few times `target_bytes` of rows: `add` waits while the writers are late. Leaving the context
    without `finish` abandons the files, which no commit names; vacuum removes them.

    Args:
        storage: The table's files.
        target_bytes: How many bytes of rows, in memory, make a file.
        releases: Whether to hold one file less in memory, and give it back to the system after each: worth its time in
            large runs only.
    """

    def __init__(self, storage: Storage, target_bytes: int, *, releases: bool = False) -> None:
        self._storage = storage
        self._target = target_bytes
        self._releases = releases
        self._writers = _WRITERS - 1 if releases else _WRITERS
        self._pool = ThreadPoolExecutor(self._writers, thread_name_prefix="delta-write")
        self._buffer: list[pa.Table] = []
        self._buffered = 0
        self._running: set[Future[dict[str, Any]]] = set()
        self._files: list[DataFile] = []
        self.rows = 0

    def add(self, rows: pa.Table) -> None:
        """Take rows of the table's physical schema."""
        if rows.num_rows == 0:
            return
        self.rows += rows.num_rows
        size = rows.nbytes
        pieces = max(1, -(-size // self._target))
        step = -(-rows.num_rows // pieces)
        for start in range(0, rows.num_rows, step):
            piece = rows.slice(start, step)
            self._buffer.append(piece)
            self._buffered += size // pieces
            if self._buffered >= self._target:
                self._flush()

    def finish(self) -> list[DataFile]:
        """All files written, durable."""
        self._flush()
        while self._running:
            self._collect()
        return self._files

    def _flush(self) -> None:
        if not self._buffer:
            return
        while len(self._running) >= self._writers:
            self._collect()
        # Copied, since a slice keeps the whole batch it comes from in memory, columns that are not written included.
        rows = pa.concat_tables(self._buffer).combine_chunks()
        self._buffer, self._buffered = [], 0
        if not self._releases:
            self._running.add(self._pool.submit(write_data_file, self._storage, rows))
            return
        self._running.add(self._pool.submit(_write_and_release, self._storage, rows))
        del rows
        pa.default_memory_pool().release_unused()

    def _collect(self) -> None:
        done, self._running = wait(self._running, return_when=FIRST_COMPLETED)
        self._files += [DataFile(future.result()) for future in done]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)


def _write_and_release(storage: Storage, rows: pa.Table) -> dict[str, Any]:
    """As `write_data_file`; gives back what Arrow's allocator keeps for this thread, as much again as the rows."""
    try:
        return write_data_file(storage, rows)
    finally:
        del rows
        pa.default_memory_pool().release_unused()
