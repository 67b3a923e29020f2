"""Snapshots in mode `cdc`: BigQuery allows no TRUNCATE while changes are streamed, so the table is replaced."""

from __future__ import annotations

from typing import ClassVar

from replicator_sdk.offset import Position
from replicator_sdk.schema import TableSchema
from replicator_target_bigquery.cdc.layout import primary_key
from replicator_target_bigquery.load.snapshot_load import TableSnapshotLoad


class CdcSnapshotLoad(TableSnapshotLoad):
    """The snapshot of one table, loaded by load jobs before the first change is streamed."""

    replaces: ClassVar[bool] = True

    def begin(self, schema: TableSchema, snapshot_id: str, position: Position) -> frozenset[int]:
        """Prepare the table for the plan's chunks; returns the indexes of those it has."""
        primary_key(schema)
        return super().begin(schema, snapshot_id, position)
