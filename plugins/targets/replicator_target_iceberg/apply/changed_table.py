"""What the SDK asks of a table with a key, for one run of changes (`replicator_sdk.net_change.keyed_table`)."""

from __future__ import annotations

import pyarrow as pa

from replicator_sdk.batch import TableChanges
from replicator_sdk.errors import BugError
from replicator_sdk.net_change import Upserts
from replicator_sdk.net_change.keyed_table import KeyedTable
from replicator_target_iceberg.apply.keyed import Place, lost_updates, refuse_moved
from replicator_target_iceberg.schema.encoding import encode_columns


class ChangedTable(KeyedTable):
    """One table, for one run of changes.

    Args:
        place: Where and how.
        changes: The changes.
    """

    def __init__(self, place: Place, changes: TableChanges) -> None:
        self._place, self._changes = place, changes

    def field(self, name: str) -> pa.Field:
        """A column."""
        return self._place.layout.field(name)

    def encode_keys(self, keys: pa.Table) -> pa.Table:
        """Columns of the key, as the table's files have them."""
        return encode_columns(keys, self._changes.schema.primary_key, self._place.layout)

    def refuse_moved(self, part: Upserts) -> None:
        """See `KeyedTable.refuse_moved`."""
        refuse_moved(part, self._changes)

    def lost(self, count: int, sequence: int) -> Exception:  # noqa: ARG002 - the position says where
        """The error for updates that need values of rows which the table does not have."""
        return lost_updates(self._changes, count)

    def in_several_partitions(self, keys: int) -> Exception:
        """The error for keys that several partitions have changes of: this target does not read partitions apart."""
        return BugError(
            f"{keys} keys in several partitions, of one log", code="RPL-9428", table=str(self._changes.table)
        )
