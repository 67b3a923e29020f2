"""The files of a change archive, at a path of its own: created once, read by others, deleted when they are old."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from replicator_state.opened_folder import open_folder
from replicator_state.storage.folder import create_once
from replicator_state.storage.store_retry import StoreRetry

if TYPE_CHECKING:
    from replicator_state.storage.folder import Folder


@dataclass(frozen=True)
class ArchiveFolder:
    """Files by their path inside the archive, such as `main.customer/2026-01-31/07/1-20.parquet`.

    Safe from any thread, and picklable, so that Spark's executors write into the same archive.

    Args:
        path: A local path, or any fsspec URL; options are found in the environment, as those of `offsetBasePath`.
        retry_seconds: How long faults of the store are waited out.
    """

    path: str
    retry_seconds: float

    @property
    def place(self) -> str:
        """The path for messages, without credentials."""
        return self._folder("").place

    def create(self, name: str, content: bytes) -> None:
        """Write a file, durable when this returns.

        Raises:
            FileExistsError: When there is one with other content.
            ReplicatorError: As the store fails (RPL-7103 to RPL-7105).
        """
        folder, file = self._split(name)
        self._retry.run("write the archive", lambda: create_once(folder, file, content))

    def replace(self, name: str, content: bytes) -> None:
        """Write a file whether it exists or not, durable when this returns.

        Raises:
            ReplicatorError: As `create`.
        """
        folder, file = self._split(name)
        self._retry.run("write the archive", lambda: folder.replace(file, content))

    def read(self, name: str) -> bytes:
        """The content of a file.

        Raises:
            FileNotFoundError: When it does not exist.
            ReplicatorError: As the store fails (RPL-7104, RPL-7105).
        """
        folder, file = self._split(name)
        return self._retry.run("read the archive", lambda: folder.read(file))

    def names(self, folder: str) -> list[str]:
        """The names of the files of a folder, in no order; empty when it does not exist.

        Raises:
            ReplicatorError: As `read`.
        """
        return self._retry.run("list the archive", self._folder(folder).names)

    def remove(self, name: str) -> None:
        """Delete a file, and its folder when nothing else is in it; what does not exist is no error.

        Raises:
            ReplicatorError: As `read`.
        """
        folder, file = self._split(name)
        self._retry.run("delete from the archive", lambda: folder.remove(file))
        self._retry.run("delete from the archive", folder.remove_empty)

    def remove_empty(self, folder: str) -> None:
        """Delete a folder when nothing is in it.

        Raises:
            ReplicatorError: As `read`.
        """
        self._retry.run("delete from the archive", self._folder(folder).remove_empty)

    def clear(self, folder: str) -> None:
        """Delete a folder with all that is inside; nothing happens when it does not exist.

        Raises:
            ReplicatorError: As `read`.
        """
        self._retry.run("delete from the archive", self._folder(folder).clear)

    def _split(self, name: str) -> tuple[Folder, str]:
        folder, _, file = name.rpartition("/")
        return self._folder(folder), file

    def _folder(self, folder: str) -> Folder:
        return open_folder(self.path, tuple(filter(None, folder.split("/"))), {}, setting="archive.path")

    @cached_property
    def _retry(self) -> StoreRetry:
        return StoreRetry(self.retry_seconds, self.place)
