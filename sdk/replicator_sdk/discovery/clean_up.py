"""What a replicator leaves at its source, and how it is removed; for `replicator delete`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replicator_sdk.offset import Offset


@dataclass(frozen=True, slots=True)
class StoredState:
    """What one generation of a replicator has stored, by which a source recognises what it created. Reads only.

    Attributes:
        get_offset: The offset saved last; None when none was.
        get_state: What `DeltaSourceContext.put_state` kept under a key; None when nothing.
    """

    get_offset: Callable[[], Offset | None]
    get_state: Callable[[str], bytes | None]


@dataclass(frozen=True, slots=True)
class Leftover:
    """Something at the source that a replicator created, uses, or had people change.

    Attributes:
        what: For people, with its name, such as `replication slot replicator_shop_1a2b3c4d`.
        by_hand: The statements that remove it; empty where it is not to be removed.
        stays: Why `SourceCleanUp.remove` leaves it; empty when it removes it.
    """

    what: str
    by_hand: str = ""
    stays: str = ""


class SourceCleanUp(ABC):
    """Removes what one replicator left at a source. Used by one thread, with the replicator's lease while it removes.

    What belongs to another replicator, or may, is left, with the reason. So does what has the replicator's name, but was not created
    by what is stored: another replicator of that name may keep its state elsewhere.
    """

    @abstractmethod
    def expected(self) -> Sequence[Leftover]:
        """What a run with these settings leaves; connects to nothing. Shown where the source cannot be reached."""

    @abstractmethod
    def identity(self) -> str:
        """What `DeltaSource.identity` returns, without creating anything; empty when the source has no identity any more.

        Raises:
            ReplicatorError: When it cannot be reached or refuses.
        """

    @abstractmethod
    def find(self) -> Sequence[Leftover]:
        """What is at the source now; changes nothing.

        Raises:
            ReplicatorError: When it cannot be reached or refuses.
        """

    @abstractmethod
    def remove(self) -> None:
        """Remove what `find` returns and does not stay; what is gone already is no error, so a call that was cut off is repeated.

        Raises:
            ReplicatorError: When it cannot be reached, refuses, or something is still in use; the rest is still there then.
        """


class NothingToRemove(SourceCleanUp):
    """For a source at which a replicator creates nothing.

    Args:
        leftovers: What people may think of, each with the reason why it stays.
    """

    def __init__(self, *leftovers: Leftover) -> None:
        self._leftovers = leftovers

    def expected(self) -> Sequence[Leftover]:
        """The same as `find`."""
        return self._leftovers

    def identity(self) -> str:
        """Not asked for: nothing is done there."""
        return ""

    def find(self) -> Sequence[Leftover]:
        """What stays."""
        return self._leftovers

    def remove(self) -> None:
        """Nothing."""
