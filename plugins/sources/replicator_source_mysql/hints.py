"""Hints of errors after which tables have to be copied again."""

from __future__ import annotations

COPY_AGAIN = "delete the pipeline's state folder and its tables at the target, then start the pipeline again: every table is copied"
COPY_TABLE_AGAIN = "copy the table again: `replicator table resync NAME TABLE --in-place`"
