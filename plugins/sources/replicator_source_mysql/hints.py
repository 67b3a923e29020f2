"""Hints of errors after which tables have to be copied again."""

from __future__ import annotations

COPY_AGAIN = "have every table copied again: `replicator reset PIPELINE`"
HEAL = "write what changed meanwhile, by comparing each table: `replicator heal PIPELINE`; or have every table copied again: `replicator reset PIPELINE`"
COPY_TABLE_AGAIN = "copy the table again: `replicator table resync NAME TABLE --in-place`"
ALONE = "or, where it is the pipeline's only table, `replicator reset PIPELINE`"
"""After `COPY_TABLE_AGAIN`, where the reader cannot pass a place of the log: it passes it without the table, if there are others."""
