"""Reads and writes a table's own files from any process: driver threads and Spark's Python workers alike."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import pyarrow as pa
from pyarrow import fs

from replicator_sdk.errors import NeedsUserError, RetryableError
from replicator_target_delta.files.azure import open_azure
from replicator_target_delta.files.full_disk import naming_full_disk
from replicator_target_delta.location import is_on_azure, is_on_disk

Stamp: TypeAlias = tuple[int, int]
_LOG: Final = "_delta_log"
_LAST_CHECKPOINT: Final = "_last_checkpoint"
_WAIT_SECONDS: Final = 30.0
_UNWRITABLE: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST})
_SCHEMES = {"s3a": "s3", "s3n": "s3"}
# Arrow repeats a request to Cloud Storage for 15 minutes by default, also one without credentials, and says nothing meanwhile.
_OPTIONS = {"gs": "?retry_limit_seconds=30"}


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file in a table's folder.

    Attributes:
        path: As the file system names it.
        name: Its name without folders.
        size: In bytes.
        modified_at: When it was written, in seconds since 1970.
    """

    path: str
    name: str
    size: int
    modified_at: float


class Storage:
    """The files under one table's folder; picklable, safe from any thread.

    Args:
        root: The folder, a local path or a URI that pyarrow can open.
    """

    def __init__(self, root: str) -> None:
        self.root = root

    def open_input(self, path: str) -> pa.NativeFile:
        """Random access to a file, named as in an `add` action: relative to the root, or absolute."""
        filesystem, base = _filesystem(self.root)
        return filesystem.open_input_file(path if "://" in path or path.startswith("/") else f"{base}/{path}")

    @contextlib.contextmanager
    def open_output(self, path: str) -> Iterator[pa.NativeFile]:
        """A new file relative to the root, which is made when it is not there; closed when the block ends.

        Raises:
            NeedsUserError: When this process may not write there, or something on the way there is a file.
            RetryableError: RPL-4410 when there is no space for it.
        """
        with naming_full_disk(self.root), self._created(path) as file:
            yield file

    def _created(self, path: str) -> pa.NativeFile:
        filesystem, base = _filesystem(self.root)
        try:
            try:
                return filesystem.open_output_stream(f"{base}/{path}")
            except FileNotFoundError:
                filesystem.create_dir(base)
                return filesystem.open_output_stream(f"{base}/{path}")
        except OSError as err:
            if err.errno not in _UNWRITABLE:
                raise
            raise NeedsUserError(
                f"the target cannot write {self.root}: {os.strerror(err.errno)}",
                code="RPL-3403",
                hint="grant write rights on it, or choose another `path`",
            ) from err

    def size(self, path: str) -> int:
        """Bytes of a file relative to the root."""
        filesystem, base = _filesystem(self.root)
        return int(filesystem.get_file_info(f"{base}/{path}").size)

    def stamp(self, path: str) -> Stamp | None:
        """Size and time of change of a file relative to the root; None when there is none."""
        filesystem, base = _filesystem(self.root)
        found = filesystem.get_file_info(f"{base}/{path}")
        return (int(found.size), int(found.mtime_ns or 0)) if found.type is fs.FileType.File else None

    def data_files(self) -> Iterator[StoredFile]:
        """Data files and deletion vectors, also below folders; not what is in hidden folders, such as the log."""
        filesystem, base = _filesystem(self.root)
        folders = [base]
        while folders:
            for found in filesystem.get_file_info(fs.FileSelector(folders.pop(), allow_not_found=True)):
                if found.base_name.startswith(("_", ".")):
                    continue
                if found.type is fs.FileType.Directory:
                    folders.append(found.path)
                elif found.base_name.endswith((".parquet", ".bin")):
                    yield _stored(found)

    def delete(self, file: StoredFile) -> None:
        """Delete a file that was listed here; one that is gone is no error."""
        with contextlib.suppress(FileNotFoundError):
            _filesystem(self.root)[0].delete_file(file.path)

    def sync(self, path: str) -> None:
        """Make a written local file and its name survive a power cut; object stores do so on close.

        Raises:
            RetryableError: RPL-4410 when there is no space for it after all.
        """
        if is_on_disk(self.root):
            file = Path(self.root) / path
            with naming_full_disk(self.root):
                _fsync(file)
                _fsync(file.parent)

    def sync_log(self, version: int) -> None:
        """The same for a commit and the folder that names it."""
        if is_on_disk(self.root):
            log = Path(self.root) / _LOG
            with contextlib.suppress(FileNotFoundError):  # another commit's clean-up may have moved it already
                _fsync(log / f"{version:020}.json")
            _fsync(log)
            if version == 0:  # the table is new, and so are its folders
                for folder in (log.parent, *log.parent.parents[:2]):
                    with contextlib.suppress(PermissionError):
                        _fsync(folder)

    def delete_left_log(self) -> None:
        """Delete what is left of a deleted table's log, before a table is created in its place; nothing where the log has a version.

        A commit that meets the deletion writes its checksum after it, and into the folder again. It has columns and counts of
        the former table: readers take them for those of the new table's version of that number.
        """
        filesystem, base = _filesystem(self.root)
        found = filesystem.get_file_info(fs.FileSelector(f"{base}/{_LOG}", allow_not_found=True))
        if any(file.base_name.endswith(".json") for file in found):
            return
        for file in found:
            if file.base_name.endswith(".crc") or file.base_name == _LAST_CHECKPOINT:
                self.delete(_stored(file))

    @contextlib.contextmanager
    def committing(self) -> Iterator[None]:
        """One process at a time commits to a table on a local disk, as far as each asks here.

        Delta looks whether a version is there, then renames its own to that name, and a local rename takes the place of what
        another process has put there meanwhile. Stores that can refuse that do; where a folder cannot be locked, nothing is.

        Raises:
            RetryableError: When another process commits for half a minute, or is held up in it.
        """
        if not is_on_disk(self.root):
            yield
            return
        with contextlib.ExitStack() as held:
            with contextlib.suppress(OSError):  # no right to write: the commit will say so
                log = Path(self.root) / _LOG
                log.mkdir(parents=True, exist_ok=True)
                handle = os.open(log, os.O_RDONLY)
                held.callback(os.close, handle)  # which gives the lock back
                self._lock(handle)
            yield

    def _lock(self, handle: int) -> None:
        until = time.monotonic() + _WAIT_SECONDS
        while not _locked(handle):
            if time.monotonic() >= until:
                raise RetryableError(
                    f"another process does not end its commit to {self.root}",
                    code="RPL-4406",
                    hint="retried by itself; end the other replicator that writes there",
                )
            time.sleep(0.01)


def _stored(found: fs.FileInfo) -> StoredFile:
    return StoredFile(found.path, found.base_name, int(found.size or 0), (found.mtime_ns or 0) / 1e9)


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@functools.lru_cache(maxsize=64)
def _filesystem(root: str) -> tuple[fs.FileSystem, str]:
    if is_on_disk(root):
        return fs.LocalFileSystem(), root
    scheme, rest = root.split("://", 1)
    try:
        if is_on_azure(root):
            return open_azure(rest)
        filesystem, path = fs.FileSystem.from_uri(f"{_SCHEMES.get(scheme, scheme)}://{rest}{_OPTIONS.get(scheme, '')}")
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as err:
        raise NeedsUserError(
            f"pyarrow cannot open {scheme}:// locations: {err}",
            code="RPL-3407",
            hint="use a local path, s3, gs, abfss, or hdfs with libhdfs on every machine",
        ) from err
    return filesystem, path.rstrip("/")
