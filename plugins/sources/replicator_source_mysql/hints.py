"""Hints of errors after which tables have to be copied again."""

from __future__ import annotations

COPY_AGAIN = "have every table copied again: `replicator reset PIPELINE`"
COPY_TABLE_AGAIN = "copy the table again: `replicator table resync NAME TABLE --in-place`"
