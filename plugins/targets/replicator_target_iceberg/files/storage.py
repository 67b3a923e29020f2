"""Reads and writes a table's own files from any process: driver threads and Spark's Python workers alike."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyarrow import fs

from replicator_sdk.errors import NeedsUserError, RetryableError
from replicator_target_iceberg.naming import local_path

_UNWRITABLE: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR})
_SCHEMES: Final = {"s3a": "s3", "s3n": "s3", "wasbs": "abfss"}
_WAIT_SECONDS: Final = 30.0


class Storage:
    """The files of one table; picklable, safe from any thread.

    Args:
        root: The table's location, as its metadata has it.
    """

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/")

    def open_input(self, location: str) -> pa.NativeFile:
        """Random access to a file by its whole location.

        Raises:
            RetryableError: RPL-4428 when it is not there.
        """
        system, path = opened(location)
        try:
            return system.open_input_file(path)
        except FileNotFoundError as error:
            raise RetryableError(
                f"the file {_name(location)} is gone, which the table's newest version had when it was read",
                code="RPL-4428",
                hint="retried by itself, with the version that is the newest then; when it goes on, the file was deleted by hand: put it back, or copy"
                " the table again: `replicator table resync NAME TABLE`",
            ) from error

    def write(self, name: str, content: Iterator[memoryview | bytes | pa.Buffer]) -> tuple[str, int]:
        """Write a new file below the root; durable on return. Returns its location and size.

        Raises:
            NeedsUserError: When this process may not write there, or pyarrow does not open such locations.
            RetryableError: When there is no space.
        """
        location = f"{self.root}/{name}"
        system, path = opened(location)
        try:
            if isinstance(system, fs.LocalFileSystem):
                Path(path).parent.mkdir(parents=True, exist_ok=True)
            with system.open_output_stream(path) as file:
                for part in content:
                    file.write(part)
                size = int(file.tell())
            self.sync(path)
        except OSError as error:
            raise _not_written(error, self.root) from error
        return location, size

    def sync(self, path: str) -> None:
        """Make a file on this machine's disk survive a power cut, and its name; object stores do so on close."""
        if local_path(self.root) is not None:
            for name in (path, os.path.dirname(path)):  # noqa: PTH120 - a path of pyarrow's
                handle = os.open(name, os.O_RDONLY)
                try:
                    os.fsync(handle)
                finally:
                    os.close(handle)

    def missing(self, locations: Sequence[str]) -> list[str]:
        """Those of the files that are not there."""
        lost: list[str] = []
        for location in locations:
            system, path = opened(location)
            if system.get_file_info(path).type is fs.FileType.NotFound:
                lost.append(location)
        return lost

    def delete(self, locations: Iterable[str]) -> None:
        """Delete files that no commit names; what fails stays as an orphan."""
        for location in locations:
            with contextlib.suppress(OSError, NeedsUserError):
                system, path = opened(location)
                system.delete_file(path)

    @contextlib.contextmanager
    def committing(self) -> Iterator[None]:
        """One process at a time commits to a table that is named by its folder alone, as far as each asks here.

        Hadoop's catalog looks whether a version is there and then renames its own to that name, which on a local disk takes the
        place of what another process has put there meanwhile.

        Raises:
            RetryableError: When another process commits for half a minute, or is held up in it.
        """
        path = local_path(self.root)
        if path is None:
            yield
            return
        folder = Path(path) / "metadata"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(folder, os.O_RDONLY)
        except OSError as error:
            raise _not_written(error, self.root) from error
        try:
            _lock(handle, self.root)
            yield
        finally:
            os.close(handle)  # which gives the lock back


@contextlib.contextmanager
def readable(location: str) -> Iterator[None]:
    """Say of a file that is not what its name says that it is damaged: Arrow's own error is that of a value that does not fit.

    Raises:
        NeedsUserError: RPL-3439, of the one table.
    """
    try:
        yield
    except pa.ArrowInvalid as error:
        raise damaged(location) from error


def damaged(location: str) -> NeedsUserError:
    """Returns the error for a file of a table that cannot be read, whoever wrote it."""
    return NeedsUserError(
        f"the file {_name(location)} of the table is damaged",
        code="RPL-3439",
        hint="put it back from a backup, or copy the table again: `replicator table resync NAME TABLE`",
    )


def _name(location: str) -> str:
    """A file's name without its folders, which other programs name by values of the rows in them."""
    return location.rpartition("/")[2]


def _lock(handle: int, root: str) -> None:
    until = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise RetryableError(
                    f"another process does not end its commit to {root}",
                    code="RPL-4425",
                    hint="retried by itself; end the other replicator that writes there",
                ) from None
            time.sleep(0.01)
        else:
            return


def _not_written(error: OSError, root: str) -> NeedsUserError | RetryableError:
    if error.errno in _UNWRITABLE:
        return NeedsUserError(
            f"the target cannot write {root}: {os.strerror(error.errno or 0)}",
            code="RPL-3423",
            hint="grant write rights on it, or choose another `warehouse`",
        )
    return RetryableError(
        f"a file cannot be written to {root} ({os.strerror(error.errno) if error.errno else type(error).__name__})",
        code="RPL-4424",
        hint="retried by itself; when the disk is full, free some of it",
    )


def opened(location: str) -> tuple[fs.FileSystem, str]:
    """The file system of pyarrow, and the path in it."""
    path = local_path(location)
    if path is not None:
        return fs.LocalFileSystem(), path
    scheme, rest = location.split("://", 1)
    bucket, _, inside = rest.partition("/")
    system, base = _remote(scheme, bucket)
    return system, f"{base}/{inside}" if base else f"/{inside}"


@functools.lru_cache(maxsize=64)
def _remote(scheme: str, bucket: str) -> tuple[fs.FileSystem, str]:
    try:
        system, base = fs.FileSystem.from_uri(f"{_SCHEMES.get(scheme, scheme)}://{bucket}/")
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise NeedsUserError(
            f"pyarrow opens no {scheme}:// locations ({type(error).__name__})",
            code="RPL-3424",
            hint="use a `warehouse` on a local path, s3, gs, abfss, or hdfs with libhdfs on every machine",
        ) from error
    return system, base.rstrip("/")
