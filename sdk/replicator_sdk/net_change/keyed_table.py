"""What a target says of a table with a key, for the parts of the SDK that turn changes into rows of its files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from replicator_sdk.net_change.rows import Upserts


class KeyedTable(ABC):
    """One table, for one run of changes; used by one thread."""

    @abstractmethod
    def field(self, name: str) -> pa.Field:
        """A column as the table's files have it, of which each has another name."""

    @abstractmethod
    def encode_keys(self, keys: pa.Table) -> pa.Table:
        """Columns of the key, in its order, as the table's files have them."""

    @abstractmethod
    def refuse_moved(self, part: Upserts) -> None:
        """Raise `SnapshotNeededError` when rows moved to another key while a copy went on, and the log does not have all their columns."""

    @abstractmethod
    def lost(self, count: int, sequence: int) -> Exception:
        """Returns the error for `count` updates that need values of rows which the table does not have; of the first the sequence number."""

    @abstractmethod
    def in_several_partitions(self, keys: int) -> Exception:
        """Returns the error for keys that several partitions of a log have changes of."""
