"""Source plugin: SQLite, through triggers into a changelog table. The worked example for plugin authors.

Read in this order: `plugin` (what there is), `changelog` (how changes get into the log), `reader` (how they get out),
`schema_change` (what becomes of ALTER TABLE), `snapshot`, `decode`.
"""

from __future__ import annotations

from replicator_sdk import DeltaSource, hookimpl


@hookimpl
def delta_sources() -> list[type[DeltaSource]]:
    """The SQLite source."""
    from replicator_source_sqlite.plugin import SqliteSource

    return [SqliteSource]
