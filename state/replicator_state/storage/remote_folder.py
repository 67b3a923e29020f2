"""A folder on any fsspec file system: object stores, HDFS, memory."""

from __future__ import annotations

import contextlib
import functools
import inspect
import secrets
from typing import Any

from replicator_state.storage.folder import Folder


class RemoteFolder(Folder):
    """Files of an fsspec file system.

    On object stores one PUT is atomic, so a file exists as a whole or not at all. File systems that write in place
    (HDFS, SFTP) may leave part of a file after a crash; checksums find it. Exclusive creation is used only where the
    file system claims it *and* a probe shows that a second creation is refused, since some stores ignore the condition.

    Args:
        fs: The file system.
        path: The folder's path inside it.
        place: The folder's URL for messages, without credentials.
    """

    def __init__(self, fs: Any, path: str, place: str) -> None:
        self._fs = fs
        self._path = path.rstrip("/")
        self.place = place

    @functools.cached_property
    def exclusive(self) -> bool:
        """Found out once, by two attempts to create one name."""
        return _claims_exclusive(self._fs) and self._probe()

    def names(self, prefix: str = "") -> list[str]:
        """See `Folder.names`."""
        return [name for name in self._list("file") if name.startswith(prefix)]

    def sizes(self, prefix: str = "") -> dict[str, int]:
        """See `Folder.sizes`."""
        return {name: size for name, size in self._entries("file") if name.startswith(prefix)}

    def folders(self) -> list[str]:
        """See `Folder.folders`."""
        return self._list("directory")

    def read(self, name: str) -> bytes:
        """See `Folder.read`."""
        self._fs.invalidate_cache()  # s3fs takes a file for missing that an older listing does not have
        return bytes(self._fs.cat_file(self._full(name)))

    def read_start(self, name: str, nbytes: int) -> bytes:
        """See `Folder.read_start`."""
        self._fs.invalidate_cache()
        return bytes(self._fs.cat_file(self._full(name), start=0, end=nbytes))

    def exists(self, name: str) -> bool:
        """See `Folder.exists`."""
        self._fs.invalidate_cache()
        return bool(self._fs.exists(self._full(name)))

    def create(self, name: str, content: bytes) -> None:
        """See `Folder.create`; read back and compared where the file system cannot create exclusively."""
        if self.exclusive:
            self._put(name, content, mode="create")
            return
        if self.exists(name):
            raise FileExistsError(name)
        self._put(name, content)
        if self.read(name) != content:
            raise FileExistsError(name)

    def replace(self, name: str, content: bytes) -> None:
        """See `Folder.replace`."""
        self._put(name, content)

    def remove(self, name: str) -> None:
        """See `Folder.remove`."""
        with contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(self._full(name))

    def clear(self, keep: tuple[str, ...] = ()) -> None:
        """See `Folder.clear`."""
        for name in self.names():
            if not (keep and name.startswith(keep)):
                self.remove(name)
        below = [self._full(name) for name in self.folders()]
        for path in below if keep else [self._path]:
            self._fs.invalidate_cache()
            if self._fs.isdir(path):  # an object store has none when its files are gone
                with contextlib.suppress(FileNotFoundError):
                    self._fs.rm(path, recursive=True)

    def _full(self, name: str) -> str:
        return f"{self._path}/{name}"

    def _list(self, kind: str) -> list[str]:
        return [name for name, _ in self._entries(kind)]

    def _entries(self, kind: str) -> list[tuple[str, int]]:
        self._fs.invalidate_cache()
        try:
            entries = self._fs.ls(self._path, detail=True)
        except FileNotFoundError:
            return []
        named = ((str(e["name"]).rstrip("/").rpartition("/")[2], e) for e in entries if e["type"] == kind)
        return [(name, int(e.get("size") or 0)) for name, e in named if name]

    def _put(self, name: str, content: bytes, **options: Any) -> None:
        try:
            self._fs.pipe_file(self._full(name), content, **options)
        except FileNotFoundError:
            # Only file systems with real folders get here; asking an object store would try to make a bucket.
            self._fs.makedirs(self._path, exist_ok=True)
            self._fs.pipe_file(self._full(name), content, **options)

    def _probe(self) -> bool:
        name = f"probe.{secrets.token_hex(8)}"
        try:
            self._put(name, b"1", mode="create")
            self._put(name, b"2", mode="create")
        except FileExistsError:
            return True
        except (NotImplementedError, TypeError, ValueError):
            return False
        finally:
            self.remove(name)
        return False


_TAKES_MODE_UNNAMED = frozenset({"adlfs.spec"})
"""Modules of file systems that implement `mode="create"` without naming the parameter."""


def _claims_exclusive(fs: Any) -> bool:
    """Whether the file system itself implements `mode="create"`; fsspec's default only looks first, then writes."""
    for name in ("_pipe_file", "pipe_file"):
        method = getattr(type(fs), name, None)
        if method is None or method.__module__ in {"fsspec.spec", "fsspec.asyn"}:
            continue
        return method.__module__ in _TAKES_MODE_UNNAMED or "mode" in inspect.signature(method).parameters
    return False
