"""What BigQuery's API reports of a table."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from replicator_target_bigquery.schema.fields import Field


@dataclass(frozen=True, slots=True)
class TableInfo:
    """An existing table.

    Attributes:
        fields: Its columns in order.
        rows: How many rows it has; of those that are in the streaming buffer, about how many.
        partition: The column it is partitioned by; empty when it is not partitioned, or by ingestion time.
        requires_filter: Whether queries must name partitions.
        clustered: The columns it is clustered by.
        key: The columns it declares as its primary key, in order.
        kind: `TABLE`, or what it is else, such as `VIEW` or `EXTERNAL`.
        created: When it was created, in milliseconds since 1970: another number is another table. 0 when unknown.
    """

    fields: tuple[Field, ...]
    rows: int
    partition: str
    requires_filter: bool
    clustered: tuple[str, ...]
    key: tuple[str, ...] = ()
    kind: str = "TABLE"
    created: int = 0

    def column(self, name: str) -> Field | None:
        """The column of that name, in any case."""
        return next((f for f in self.fields if f.name.lower() == name.lower()), None)

    @property
    def required_filter(self) -> Field | None:
        """The partitioning column that each query must filter; None when queries need no such filter."""
        return self.column(self.partition) if self.requires_filter else None

    @classmethod
    def from_api(cls, table: Any) -> TableInfo:
        """What Google's client returns, as one of these."""
        partitioning = table.time_partitioning or table.range_partitioning
        constraints = table.table_constraints
        buffer = table.streaming_buffer
        return cls(
            tuple(Field.from_api(f.to_api_repr()) for f in table.schema),
            int(table.num_rows or 0) + int(getattr(buffer, "estimated_rows", 0) or 0),
            str(getattr(partitioning, "field", None) or ""),
            bool(table.require_partition_filter),
            tuple(table.clustering_fields or ()),
            tuple(constraints.primary_key.columns) if constraints and constraints.primary_key else (),
            str(table.table_type or "TABLE"),
            milliseconds(table.created),
        )


def milliseconds(created: datetime | None) -> int:
    """A time of Google's client as milliseconds since 1970; 0 for none."""
    return 0 if created is None else round(1000 * created.timestamp())
