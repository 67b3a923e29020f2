"""Records that Debezium writes beside changes: heartbeats, schema changes, transaction metadata, notifications."""

from __future__ import annotations

import re
from typing import Any, Final

_SCHEMA_NAMES: Final = re.compile(
    r"^io\.debezium\.(connector\.common\.(Heartbeat|TransactionMetadataValue|Notification)"
    r"|connector\.[a-z0-9]+\.SchemaChangeValue|connector\.schema\.)"
)
_HEARTBEAT: Final = {"ts_ms"}
_MEMBERS: Final = ({"ddl", "databaseName"}, {"tableChanges"}, {"status", "id", "event_count"})
"""Members that only schema changes and transaction metadata have."""


def is_metadata_schema(name: str) -> bool:
    """Whether records whose schema has this name are metadata, which say nothing about rows."""
    return _SCHEMA_NAMES.match(name) is not None


def is_metadata_object(value: Any) -> bool:
    """Whether a JSON value without a schema is metadata."""
    if not isinstance(value, dict):
        return False
    return value.keys() == _HEARTBEAT or any(members <= value.keys() for members in _MEMBERS)
