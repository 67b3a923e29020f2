"""Brings a table back to an earlier version: the steps that are the same for every target that keeps versions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from replicator_sdk.errors import NeedsUserError
from replicator_sdk.target import EarlierVersion

if TYPE_CHECKING:
    from replicator_sdk.authoring.table_ownership import TableOwnership, TableRecord
    from replicator_sdk.offset import Position
    from replicator_sdk.target import TableProgress


class NewestVersion(Protocol):
    """The newest version of a table, which a commit of this run may follow."""

    @property
    def record(self) -> TableRecord | None:
        """What it says of the table; None when there is no table."""

    @property
    def progress(self) -> TableProgress | None:
        """How far the table is; None when there is no table."""


NewestT = TypeVar("NewestT", bound=NewestVersion)
VersionT = TypeVar("VersionT")
ContentT = TypeVar("ContentT")


@dataclass(frozen=True, slots=True)
class Found(Generic[VersionT]):
    """Where a table goes back to.

    Attributes:
        version: The version, in the target's own terms; None when there was no table.
        record: What it says of the table; None when there was no table.
        following: What the next version that says something says.
    """

    version: VersionT | None
    record: TableRecord | None
    following: TableRecord


class TableRewind(ABC, Generic[NewestT, VersionT, ContentT]):
    """Brings one table back, as `RewindableConsumer` promises it. A target says how versions are found, checked and committed.

    Called while no one else uses the table in this process.

    Args:
        ownership: Of the table.
    """

    def __init__(self, ownership: TableOwnership) -> None:
        self._ownership = ownership

    def find(self, position: Position) -> EarlierVersion | None:
        """As `RewindableConsumer.find_version`."""
        newest = self.begin()
        if newest.record is None or newest.record.is_until(position):
            return None
        found = self.newest_until(newest, position)
        assert found.following.progress is not None
        if found.record is None or found.version is None:
            return EarlierVersion("none", None, found.following.progress)
        content = self.content(newest, found.version)
        name = self.name_of(found.version)
        rows = self.rows(newest, found.version, content)
        return EarlierVersion(name, found.record.progress, found.following.progress, *rows)

    def rewind(self, position: Position) -> TableProgress | None:
        """As `RewindableConsumer.rewind_table`."""
        newest = self.begin()
        if newest.record is None or newest.record.is_until(position):
            return newest.progress
        found = self.newest_until(newest, position)
        if found.record is None or found.record.progress is None or found.version is None:
            raise self.gone("there was no table of this replicator then")
        content = self.content(newest, found.version)
        # A batch's identity is of its own commit: this one is another.
        progress = replace(self._ownership.taken_over(found.record.progress), batch="")
        self.commit(newest, found.version, content, found.record, progress)
        return progress

    @abstractmethod
    def begin(self) -> NewestT:
        """The newest version, read from the target and not from memory; checked against newer runs."""

    @abstractmethod
    def newest_until(self, newest: NewestT, position: Position) -> Found[VersionT]:
        """The newest version that says nothing after `position`, while every later one does.

        A version that says nothing, such as another program's, belongs to the one before.

        Raises:
            NeedsUserError: What `gone` returns, when versions that are needed were deleted.
        """

    @abstractmethod
    def content(self, newest: NewestT, version: VersionT) -> ContentT:
        """What the table is to have again, all of it there.

        Raises:
            NeedsUserError: What `gone` returns, when some of it was deleted.
        """

    @abstractmethod
    def name_of(self, version: VersionT) -> str:
        """The version, for people."""

    @abstractmethod
    def rows(self, newest: NewestT, version: VersionT, content: ContentT) -> tuple[int | None, int | None]:
        """How many rows the table has, and that version; None where that is not known without counting."""

    @abstractmethod
    def commit(
        self, newest: NewestT, version: VersionT, content: ContentT, record: TableRecord, progress: TableProgress
    ) -> None:
        """Have rows, columns and `progress` of that version again, by one commit of this run; durable when it returns.

        Args:
            newest: What the commit follows.
            version: Where the table goes back to.
            content: What `content` returned.
            record: What that version says of the table.
            progress: What the commit says.
        """

    @abstractmethod
    def gone(self, why: str) -> NeedsUserError:
        """Returns the error for a table that cannot go back.

        Args:
            why: Of the version, what is not there.
        """
