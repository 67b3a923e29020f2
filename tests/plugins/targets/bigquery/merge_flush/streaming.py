"""Projects in mode merge-flush, and the batches these tests stream."""

from __future__ import annotations

from typing import Any

from tests.plugins.targets.bigquery.project import Project
from tests.services.bigquery import Emulators

KEY = "customKeyField"


def streaming(emulators: Emulators, **settings: Any) -> Project:
    """A project whose consumers upsert and delete, and merge only when they are asked to."""
    chosen = {
        "mode": "merge-flush",
        "upsert_enabled": True,
        "delete_enabled": True,
        "kafka_key_field_name": KEY,
        "merge_interval_ms": 3_600_000,
    }
    return Project(emulators, **{**chosen, **settings})
