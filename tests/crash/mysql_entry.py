"""As `entry.py WHAT run pipeline.json …`, with parts of the recovery that only the MySQL source has."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from tests.crash.breakages import BREAKAGES, Patch, altered
from tests.crash.entry import main

if TYPE_CHECKING:
    from replicator_source_mysql.offset import MySqlOffset


def no_rewind(patch: Patch) -> None:
    """Tables are taken to look at the saved offset as they looked where the dead run had read to."""
    from replicator_source_mysql.ddl.history.schema_history import SchemaHistory

    patch.setattr(SchemaHistory, "rewind", lambda self, position: None)


def history_of_the_beginning(patch: Patch) -> None:
    """What statements changed is known in the process only: a later run knows what tables looked like at first."""
    from replicator_source_mysql.streaming.schema_tracker import SchemaTracker

    true_follow = SchemaTracker.follow

    def follow(self: SchemaTracker, query: Any, after: MySqlOffset, captured: Any) -> Any:
        with Patch() as here:
            here.setattr(self, "_save", lambda: None)
            return true_follow(self, query, after, captured)

    patch.setattr(SchemaTracker, "follow", follow)


BREAKAGES["rewind"] = no_rewind
BREAKAGES["history"] = history_of_the_beginning

if __name__ == "__main__":
    with altered(sys.argv[1]):
        sys.exit(main(sys.argv[2:]))
