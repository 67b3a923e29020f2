"""Tables whose writers only append, and whose readers take the latest row of each primary key (seed 002)."""

from replicator_sdk.merge_on_read.definition import MergeOnReadDefinition
from replicator_sdk.merge_on_read.reading import latest_rows, view_sql

__all__ = ["MergeOnReadDefinition", "latest_rows", "view_sql"]
