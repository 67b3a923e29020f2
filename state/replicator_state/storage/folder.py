"""One folder of small files: the few operations that offsets, state and leases need, and what each promises."""

from __future__ import annotations

from abc import ABC, abstractmethod


class Folder(ABC):
    """A folder on some file system. Names are single path parts of this package, never user text.

    Safe from any thread and among processes. Faults of the store are raised as the store raised them (`StoreRetry` turns
    them into typed errors); "not there" is `FileNotFoundError`, "already there" `FileExistsError`.

    Attributes:
        place: The folder for messages, without credentials.
    """

    place: str

    @property
    @abstractmethod
    def exclusive(self) -> bool:
        """Whether exactly one of several processes that create the same name wins."""

    @abstractmethod
    def names(self, prefix: str = "") -> list[str]:
        """Names of the files that begin with `prefix`, in no order; empty when the folder does not exist."""

    @abstractmethod
    def folders(self) -> list[str]:
        """Names of the folders inside, in no order; empty when this folder does not exist."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """The whole content."""

    @abstractmethod
    def read_start(self, name: str, nbytes: int) -> bytes:
        """The first bytes, at most so many; no more is read."""

    @abstractmethod
    def exists(self, name: str) -> bool:
        """Whether the file exists now, past any cache."""

    @abstractmethod
    def create(self, name: str, content: bytes) -> None:
        """Write a file that does not exist yet; durable on return, never overwrites (where `exclusive`)."""

    @abstractmethod
    def replace(self, name: str, content: bytes) -> None:
        """Write a file whether it exists or not; durable on return, and a reader sees the old or the new content."""

    def keep(self, name: str, other: str, content: bytes) -> None:
        """Let `other` be the file `name`, which has this content, whether `other` exists or not; `name` stays as it is.

        Durable with the next `replace` in this folder at the latest.
        """
        del name
        self.replace(other, content)

    def append(self, name: str, added: bytes, whole: bytes) -> None:
        """Let the file `name` hold `whole`, which ends with `added`; without `added` it is what this process wrote there before.

        May be repeated. Not durable when this returns where the store can append: it outlives the process, and not the machine.
        """
        del added
        self.replace(name, whole)

    @abstractmethod
    def sizes(self, prefix: str = "") -> dict[str, int]:
        """Bytes of each file whose name begins with `prefix`; empty when the folder does not exist."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Delete the file; nothing happens when it does not exist."""

    @abstractmethod
    def clear(self, keep: tuple[str, ...] = ()) -> None:
        """Delete all that is inside, other folders too, but files whose names begin with one of `keep`; without such the folder itself.

        Nothing happens when it does not exist; a call that was cut off is repeated.
        """

    def remove_empty(self) -> None:
        """Delete the folder if nothing is in it; where the store has no folders nothing happens."""

    def tidy(self) -> None:
        """Delete what a crash during a write left; called when a run begins."""


def create_once(folder: Folder, name: str, content: bytes) -> None:
    """`folder.create`, safe to repeat: content that is already there byte for byte counts as created.

    A store may have written and lost the answer; without this the repetition would take its own file for another run's.

    Raises:
        FileExistsError: When the name is taken by other content.
    """
    try:
        folder.create(name, content)
    except FileExistsError:
        if folder.read(name) != content:
            raise
