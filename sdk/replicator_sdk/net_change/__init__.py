"""Reduces a run of changes to the net change of each row, which a target merges.

`net_changes` for tables with a key, `net_bag` for tables without one; for runs larger than memory `NetPlan`, which
looks at keys first and then returns the final rows batch by batch. No Python code runs per row.

Promises:

* **Order.** The last change by source order decides each key; `ChangeBatch`es come in that order. Clocks and sequence
  numbers are carried along, not compared.
* **Keys** are compared null-safely; NaN equals NaN, -0.0 equals 0.0 (the value delivered is the one last written).
* **A key identifies one row after every change**, not only at the end of a transaction: a source must not declare a
  deferrable constraint as a table's key. (Postgres does not take one as a replica identity either; such a table is one
  without a key.) Then a move onto a key proves the key free, and `1→0, 2→1, 0→2` swaps two rows.
* **Replay.** A run that starts earlier and goes further, applied to the target again, gives the same rows, if its
  caller says `overlap=True`.
* Pure functions; safe from any thread; results are new and belong to the caller.
"""

from replicator_sdk.net_change.bag import NetBag, net_bag
from replicator_sdk.net_change.chains import Chains
from replicator_sdk.net_change.keys import encode_rows, look_up
from replicator_sdk.net_change.rows import NetChanges, NetPlan, Upserts, net_changes

__all__ = ["Chains", "NetBag", "NetChanges", "NetPlan", "Upserts", "encode_rows", "look_up", "net_bag", "net_changes"]
