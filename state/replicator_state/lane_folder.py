"""The files of what the target does not take: changes of paused tables, and rows put aside, each in a folder of a generation."""

from __future__ import annotations

from collections.abc import Callable, Collection

from replicator_state.storage.folder import Folder, create_once
from replicator_state.storage.store_retry import StoreRetry


class LaneFolder:
    """Files that are created once and never changed. Safe from any thread.

    A superseded run may still create one or delete what its records do not need, so callers give names that no later run gives
    to other content.

    Args:
        folder: `lanes` or `dead-letters` in the generation's folder.
        retry: How long faults of the store are waited out.
        fence: Raises `FencedError` when this run was superseded.
    """

    def __init__(self, folder: Folder, retry: StoreRetry, fence: Callable[[], None]) -> None:
        self._folder = folder
        self._retry = retry
        self._fence = fence

    @property
    def place(self) -> str:
        """The folder for messages, without credentials."""
        return self._folder.place

    def names(self) -> list[str]:
        """The names of all files, in no order.

        Raises:
            FencedError: When a newer run took over; so none of the names is of a file that such a run created.
            ReplicatorError: RPL-7104 or RPL-7105 when the store cannot be listed.
        """
        found = self._retry.run(f"list {self._folder.place}", self._folder.names)
        self._fence()
        return found

    def read(self, name: str) -> bytes:
        """The content of a file.

        Raises:
            FileNotFoundError: When it does not exist.
            ReplicatorError: As the store fails (RPL-7104, RPL-7105).
        """
        return self._retry.run("read what the target did not take", lambda: self._folder.read(name))

    def read_start(self, name: str, nbytes: int) -> bytes:
        """The first bytes of a file, at most so many.

        Raises:
            FileNotFoundError: When it does not exist.
            ReplicatorError: As `read`.
        """
        return self._retry.run("read what the target did not take", lambda: self._folder.read_start(name, nbytes))

    def create(self, name: str, content: bytes) -> None:
        """Write a file, durable when this returns.

        Raises:
            FencedError: When a newer run took over; nothing is written then.
            ReplicatorError: As the store fails (RPL-7103 to RPL-7105).
        """
        self._fence()
        self._retry.run("keep changes that the target does not take", lambda: create_once(self._folder, name, content))

    def remove(self, names: Collection[str]) -> None:
        """Delete files; one that does not exist is no error.

        Raises:
            ReplicatorError: As the store fails (RPL-7104, RPL-7105).
        """
        for name in names:
            self._retry.run("delete what the target did not take", lambda name=name: self._folder.remove(name))  # type: ignore[misc]
