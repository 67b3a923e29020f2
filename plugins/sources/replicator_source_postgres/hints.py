"""Next steps that several errors share."""

from __future__ import annotations

COPY_AGAIN = (
    "give the pipeline another `name` (and another `slot`, where it has one) and its target another place; it then copies"
    " all tables"
)
"""The next step after a lost log: a new name has a new state, and the target's tables belong to the old one."""

DROP_SLOT = "drop the old slot at the source once it is not needed: SELECT pg_drop_replication_slot"
"""What to do with a slot that is not read any more; the name follows, in brackets and quotes. It makes the server keep its log."""
