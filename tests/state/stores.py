"""File systems that the state package is tested on, and functions that create stored values."""

from __future__ import annotations

import errno
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import fsspec
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from replicator_state import SavedOffset
from replicator_state.offsets.offset_format import decode
from replicator_state.storage.folder import Folder
from replicator_state.storage.local_folder import LocalFolder

START = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


class PlainFileSystem(MemoryFileSystem):
    """In memory, without exclusive creation: as an SFTP server or an old object store."""

    protocol = "plain"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]

    def pipe_file(self, path: str, value: bytes, **kwargs: Any) -> None:
        """Overwrites."""
        assert "mode" not in kwargs
        super().pipe_file(path, value, mode="overwrite")


class LyingFileSystem(PlainFileSystem):
    """Takes the condition and ignores it, as some S3 look-alikes ignore `If-None-Match`."""

    protocol = "lying"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        """Overwrites whatever `mode` says."""
        del mode
        super().pipe_file(path, value, **kwargs)


for _kind in (PlainFileSystem, LyingFileSystem):
    fsspec.register_implementation(_kind.protocol, _kind, clobber=True)


class FailingFolder(LocalFolder):
    """A local folder that fails with an error number in the given operations, until it is healed."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.error: int | None = None
        self.broken: set[str] = {"create", "replace", "read", "names", "exists", "remove"}
        self.failures = 0

    def _maybe(self, operation: str) -> None:
        if self.error is not None and operation in self.broken:
            self.failures += 1
            raise OSError(self.error, errno.errorcode[self.error], str(self.path))

    def names(self, prefix: str = "") -> list[str]:
        self._maybe("names")
        return super().names(prefix)

    def read(self, name: str) -> bytes:
        self._maybe("read")
        return super().read(name)

    def exists(self, name: str) -> bool:
        self._maybe("exists")
        return super().exists(name)

    def create(self, name: str, content: bytes) -> None:
        self._maybe("create")
        super().create(name, content)

    def replace(self, name: str, content: bytes) -> None:
        self._maybe("replace")
        super().replace(name, content)

    def keep(self, name: str, other: str, content: bytes) -> None:
        self._maybe("replace")
        super().keep(name, other, content)

    def remove(self, name: str) -> None:
        self._maybe("remove")
        super().remove(name)


class CountingFolder(LocalFolder):
    """Counts how often it is listed and read."""

    reads = 0
    listings = 0

    def names(self, prefix: str = "") -> list[str]:
        self.listings += 1
        return super().names(prefix)

    def read(self, name: str) -> bytes:
        self.reads += 1
        return super().read(name)


class LostAnswerFolder(LocalFolder):
    """Writes, then fails once: the answer was lost on the way back."""

    lost = False

    def create(self, name: str, content: bytes) -> None:
        super().create(name, content)
        if not self.lost:
            self.lost = True
            raise TimeoutError("no answer")


def shared_plain_folder(path: Path) -> Any:
    """A file system without exclusive creation that several processes share, with the root of its folder."""
    path.mkdir(parents=True, exist_ok=True)
    return DirFileSystem(path=str(path), fs=LocalFileSystem(auto_mkdir=True, skip_instance_cache=True))


def offset(number: int, *, seconds: float = 0.0) -> SavedOffset:
    """An offset with a sequence number, saved `seconds` after the start."""
    return SavedOffset(number, {"lsn": f"0/{number:X}".encode()}, START + timedelta(seconds=seconds))


def offset_files(folder: Folder) -> list[str]:
    """Names of the offset files, oldest first."""
    return sorted(folder.names("offset."))


def sequences(folder: Folder) -> list[int]:
    """Sequence numbers of the offset files, oldest first, read past the store."""
    return [decode(folder.read(name)).sequence_number for name in offset_files(folder)]
