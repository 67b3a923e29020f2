"""What the SDK asks of a table with a key, for one run of changes (`replicator_sdk.net_change.keyed_table`)."""

from __future__ import annotations

import pyarrow as pa

from replicator_sdk.batch import TableChanges
from replicator_sdk.net_change import Upserts
from replicator_sdk.net_change.keyed_table import KeyedTable
from replicator_target_delta.apply.keyed import in_several_partitions, lost_updates, refuse_moved
from replicator_target_delta.schema.encoding import encode_keys
from replicator_target_delta.schema.types import Layout


class ChangedTable(KeyedTable):
    """One table, for one run of changes.

    Args:
        layout: The table's columns.
        changes: The changes.
    """

    def __init__(self, layout: Layout, changes: TableChanges) -> None:
        self._layout, self._changes = layout, changes

    def field(self, name: str) -> pa.Field:
        """A column, as the files have it."""
        found: pa.Field = self._layout[name].arrow
        return found

    def encode_keys(self, keys: pa.Table) -> pa.Table:
        """Columns of the key, as the table's files have them."""
        return encode_keys(keys, self._changes.schema, self._layout)

    def refuse_moved(self, part: Upserts) -> None:
        """See `KeyedTable.refuse_moved`."""
        refuse_moved(part, self._changes)

    def lost(self, count: int, sequence: int) -> Exception:
        """The error for updates that need values of rows which the table does not have."""
        return lost_updates(self._changes, count, sequence)

    def in_several_partitions(self, keys: int) -> Exception:
        """The error for keys that several partitions of a log have changes of."""
        return in_several_partitions(self._changes.table, self._changes.identity.position, keys)
