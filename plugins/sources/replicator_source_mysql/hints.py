"""Hints of errors after which tables have to be copied again."""

from __future__ import annotations

COPY_AGAIN = "have every table copied again: `replicator reset PIPELINE`"
HEAL = "write what changed meanwhile, by comparing each table: `replicator heal PIPELINE`; or have every table copied again: `replicator reset PIPELINE`"
COPY_TABLE_AGAIN = "copy the table again: `replicator table resync NAME TABLE --in-place`"
