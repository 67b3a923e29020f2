"""Source plugin: the change archive of another pipeline, read in the order in which it was written.

Read in this order: `manifests` (what is in the archive), `reader` (how it is emitted), `snapshots` (how a table is put together).
"""

from __future__ import annotations

from replicator_sdk import DeltaSource, hookimpl


@hookimpl
def delta_sources() -> list[type[DeltaSource]]:
    """The archive as a source."""
    from replicator_source_archive.plugin import ArchiveSource

    return [ArchiveSource]
