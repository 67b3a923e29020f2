"""Keeps what is rarely needed of `add` actions, compressed, in a temporary file of the process.

Statistics of all columns take a kilobyte and more a file, and are needed again only when a file gets another deletion
vector or goes. The file has no name, so it is gone with the process.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections import deque
from pathlib import Path
from typing import Final

import pyarrow as pa

_PAGE: Final = 4096


class _Pages:
    """A file of pages that are used again once they are free. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._file: int | None = None
        self._end = 0
        self._free: deque[int] = deque()

    def write(self, data: bytes) -> tuple[int, ...]:
        """Write `data` to free pages; returns which.

        Raises:
            OSError: When there is no room; nothing is taken then.
        """
        taken = tuple(self._take() for _ in range(0, len(data), _PAGE))
        try:
            for at, page in enumerate(taken):
                self._write_page(page, data[at * _PAGE : (at + 1) * _PAGE])
        except OSError:
            self.release(taken)
            raise
        return taken

    def read(self, pages: tuple[int, ...]) -> bytes:
        """What was written to `pages`."""
        return b"".join(os.pread(self._open(), _PAGE, page * _PAGE) for page in pages)

    def release(self, pages: tuple[int, ...]) -> None:
        """Free the pages; takes no lock, since the garbage collector may call it at any point."""
        self._free.extend(pages)

    def _take(self) -> int:
        try:
            return self._free.popleft()
        except IndexError:
            with self._lock:
                self._end += 1
                return self._end - 1

    def _write_page(self, page: int, data: bytes) -> None:
        if os.pwrite(self._open(), data, page * _PAGE) != len(data):
            raise OSError("the temporary folder is full")

    def _open(self) -> int:
        with self._lock:
            if self._file is None:
                self._file, name = tempfile.mkstemp(prefix="replicator-delta-")
                Path(name).unlink()
            return self._file


_PAGES: Final = _Pages()


class StoredBatch:
    """One record batch, compressed: in the file, or in memory where the file cannot be written."""

    __slots__ = ("_kept", "_packed", "_pages", "_schema", "_size")

    def __init__(self, batch: pa.RecordBatch) -> None:
        content = batch.serialize()
        packed = pa.compress(content, codec="zstd", asbytes=True)
        self._pages: tuple[int, ...] = ()
        self._kept: bytes | None = None
        self._schema, self._size, self._packed = batch.schema, content.size, len(packed)
        try:
            self._pages = _PAGES.write(packed)
        except OSError:
            self._kept = packed

    def load(self) -> pa.RecordBatch:
        """The batch."""
        packed = (self._kept if self._kept is not None else _PAGES.read(self._pages))[: self._packed]
        content = pa.decompress(packed, decompressed_size=self._size, codec="zstd")
        return pa.ipc.read_record_batch(content, self._schema)

    def __del__(self) -> None:
        _PAGES.release(getattr(self, "_pages", ()))
