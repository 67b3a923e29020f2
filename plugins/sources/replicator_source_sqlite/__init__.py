"""Source plugin: SQLite, through triggers into a changelog table. The worked example for plugin authors.

Read in this order: `plugin` (the parts of the source), `capture` (how changes and schema changes get into the log),
`streaming` (how they are read and emitted), `snapshots`, `types` (how values become Arrow columns).
"""

from __future__ import annotations

from replicator_sdk import DeltaSource, hookimpl


@hookimpl
def delta_sources() -> list[type[DeltaSource]]:
    """The SQLite source."""
    from replicator_source_sqlite.plugin import SqliteSource

    return [SqliteSource]
