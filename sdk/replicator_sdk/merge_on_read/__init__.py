"""Tables whose writers only append, and whose readers take the latest row of each primary key (seed 002)."""

from replicator_sdk.merge_on_read.definition import (
    PRIMARY_KEY,
    TOMBSTONE_KEY,
    TOMBSTONE_STRING_KEY_VALUE,
    WATERMARK_KEY,
    MergeOnReadDefinition,
)
from replicator_sdk.merge_on_read.reading import free_name, latest_rows, view_sql

__all__ = [
    "PRIMARY_KEY",
    "TOMBSTONE_KEY",
    "TOMBSTONE_STRING_KEY_VALUE",
    "WATERMARK_KEY",
    "MergeOnReadDefinition",
    "free_name",
    "latest_rows",
    "view_sql",
]
