"""Keeps a transaction that outgrows memory on local disk, as Arrow IPC, until it is applied."""

from __future__ import annotations

import contextlib
import errno
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from replicator_runtime.engine.batching.packed_changes import pack, packed_type, unpack
from replicator_sdk.errors import RetryableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from replicator_sdk import ChangeBatch, TableSchema

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class SpillFile:
    """Batches of one table under one schema version, in order. One writer; read after `finish`, any number of times.

    The file has no name any more once it is open, so that a crash leaves no file. All but `read` and `close` raise
    RPL-9016, which is retried, when the folder is full; the file is of no use then but to be closed.
    """

    def __init__(self, schema: TableSchema, folder: str | None) -> None:
        self.schema = schema
        self.rows = 0
        self.nbytes = 0
        self._folder = tempfile.gettempdir() if folder is None else folder
        with self._needs_space(0):
            self._file = tempfile.TemporaryFile(prefix="replicator-spill-", dir=self._folder)  # noqa: SIM115 - lives as long as this
        self._sink = pa.PythonFile(self._file, mode="w")
        self._writer: pa.RecordBatchStreamWriter | None = None
        self._type = packed_type(schema)

    def write(self, batch: ChangeBatch) -> None:
        """Append a numbered batch."""
        packed, flags = pack(batch)
        with self._needs_space(batch.nbytes):
            if self._writer is None:
                self._writer = pa.ipc.new_stream(self._sink, self._type)
            self._writer.write_batch(packed, custom_metadata=flags)
        self.rows += len(batch)
        self.nbytes += batch.nbytes

    def finish(self) -> None:
        """No more is written."""
        if self._writer is not None:
            with self._needs_space(0):
                self._writer.close()
                self._file.flush()

    def read(self) -> Iterator[ChangeBatch]:
        """The batches in order, one in memory at a time; from the start at each call."""
        if self._writer is None:
            return
        path = Path("/proc/self/fd") / str(self._file.fileno())
        with pa.OSFile(str(path), "rb") as source, pa.ipc.open_stream(source) as reader:
            for batch, metadata in reader.iter_batches_with_custom_metadata():
                yield unpack(self.schema, batch, metadata)

    def close(self) -> None:
        """Give the disk space back; may be called twice."""
        with contextlib.suppress(OSError):  # the rest of a write that found no space; the file is closed all the same
            self._file.close()

    @contextlib.contextmanager
    def _needs_space(self, nbytes: int) -> Iterator[None]:
        """Write `nbytes` more; a full folder is an error that says what is missing and how to give it."""
        try:
            yield
        except OSError as error:
            if error.errno not in _FULL:
                raise
            raise _no_space(self._folder, self.nbytes + nbytes, str(self.schema.table)) from error


def _no_space(folder: str, needed: int, table: str) -> RetryableError:
    """The error for a full `folder`; a quota can be used up while the disk has space, so both figures are shown."""
    free = shutil.disk_usage(folder).free
    return RetryableError(
        f"a transaction that outgrows memory finds no space in the temporary folder {folder}: the table's part alone needs"
        f" {needed:,} bytes or more, and {free:,} are free",
        code="RPL-9016",
        hint="free space there, which is enough: it is retried by itself and nothing was lost; or stop the run, set TMPDIR to a"
        " folder with more space and start again",
        table=table,
    )
