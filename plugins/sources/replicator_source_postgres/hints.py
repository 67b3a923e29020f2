"""Next steps that several errors share."""

from __future__ import annotations

COPY_AGAIN = "have every table copied again: `replicator reset PIPELINE`"
"""The next step after a lost log: a new generation begins without an offset, and with a slot of its own unless `slot` names one."""

HEAL = "write what changed meanwhile, by comparing each table: `replicator heal PIPELINE`; or have every table copied again: `replicator reset PIPELINE`"
"""The same where the log is lost, but not another one: a slot that the replicator has created is made again by both."""

DROP_SLOT = "where `slot` names the slot, drop it first: SELECT pg_drop_replication_slot"
"""What to do before with a slot that the replicator has not named; the name follows, in brackets and quotes. Others are made again."""
