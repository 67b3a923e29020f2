"""Target tables of mode `cdc`: they declare the key by which BigQuery applies changes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from replicator_sdk.errors import NeedsUserError
from replicator_sdk.schema import TableSchema
from replicator_target_bigquery.schema.fields import field_of
from replicator_target_bigquery.schema.layout import TableLayout
from replicator_target_bigquery.schema.names import column_name

if TYPE_CHECKING:
    from google.cloud import bigquery

_MOST_KEY_COLUMNS: Final = 16


@dataclass(frozen=True)
class CdcLayout(TableLayout):
    """What target tables of mode `cdc` look like. Picklable, safe from any thread."""

    def required(self, schema: TableSchema) -> Collection[str]:
        """The key: a row that is deleted is written as its key alone."""
        return set(schema.primary_key)

    def define(self, table: bigquery.Table, schema: TableSchema) -> None:
        """Set clustering, partitions, primary key and `max_staleness` of a table that is about to be created.

        Raises:
            NeedsUserError: When BigQuery cannot partition by the column in the settings, or apply changes by the key.
        """
        from google.cloud.bigquery.table import PrimaryKey, TableConstraints

        super().define(table, schema)
        table.table_constraints = TableConstraints(PrimaryKey(list(primary_key(schema))), None)
        if self.config.max_staleness:
            minutes, seconds = divmod(self.config.max_staleness, 60)
            hours, minutes = divmod(minutes, 60)
            table.max_staleness = f"0-0 0 {hours}:{minutes}:{seconds}"


def primary_key(schema: TableSchema) -> tuple[str, ...]:
    """The key's columns by their names at the target, in order.

    Raises:
        NeedsUserError: When BigQuery cannot apply changes by the table's key.
    """
    if not schema.primary_key:
        raise _unsuitable(schema, "the table has no primary key, and BigQuery applies changes by one")
    if len(schema.primary_key) > _MOST_KEY_COLUMNS:
        raise _unsuitable(schema, f"the key has more than {_MOST_KEY_COLUMNS} columns")
    wrong = [c.name for c in schema.key_columns() if not field_of("k", c.type).clusters]
    if wrong:
        raise _unsuitable(schema, f"BigQuery takes no key of the types of {', '.join(wrong)}")
    return tuple(column_name(c.name) for c in schema.key_columns())


def _unsuitable(schema: TableSchema, what: str) -> NeedsUserError:
    return NeedsUserError(
        what,
        code="RPL-6701",
        table=str(schema.table),
        hint="replicate this table by a pipeline of its own with mode batch, or give it another key at the source",
    )
