"""What a comparison needs of the server whose rows and changes are read, whichever database it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

DATABASE = "bench"
COLUMNS = 12


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What two copies of the table must agree on to be called equal."""

    rows: int
    ids: int
    quantities: int


class Source(ABC):
    """A private server with tables of the benchmark.

    Attributes:
        plugin: Our source that reads it.
        level: What the pipeline calls a table's namespace, `schema` or `database`.
        parent: The name of that.
    """

    plugin: ClassVar[str]
    level: ClassVar[str]
    parent: ClassVar[str]

    @abstractmethod
    def execute(self, statement: str) -> list[tuple[object, ...]]:
        """Run one statement as superuser; its rows."""

    @abstractmethod
    def properties(self, reader: str) -> Mapping[str, Any]:
        """Properties of our source, for a replicator called `reader`."""

    @property
    @abstractmethod
    def url(self) -> str:
        """The database as a URL."""

    @abstractmethod
    def make(self, table: str, rows: int) -> None:
        """Create `table` again with ids 1 to `rows`."""

    @abstractmethod
    def churn(self, table: str, changes: int, *, seed: float = 0.5) -> int:
        """Change `table`: a third each inserts, updates and deletes of rows drawn from the whole; returns how many that were."""

    @abstractmethod
    def forget(self) -> None:
        """Let the server forget every reader that does not read now."""

    def fingerprint(self, table: str) -> Fingerprint:
        """The table's as it is now."""
        found = self.execute(f"SELECT count(*), sum(id), sum(quantity) FROM {table}")
        return Fingerprint(*(int(str(value)) for value in found[0]))
