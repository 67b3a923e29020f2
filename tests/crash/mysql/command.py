"""As `tests/crash/command.py PART run pipeline.json …`, with parts of the recovery that only the MySQL source has."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.crash.command import main
from tests.crash.patch import Patch
from tests.crash.removed_recovery import PARTS, without

if TYPE_CHECKING:
    from replicator_source_mysql.offset import MySqlOffset

COMMAND = (sys.executable, str(Path(__file__)))


def no_rewind(patch: Patch) -> None:
    """The columns of tables at the saved offset are taken to be those where the dead run had read to."""
    from replicator_source_mysql.ddl.history.schema_history import SchemaHistory

    patch.setattr(SchemaHistory, "rewind", lambda self, position: None)


def history_of_the_beginning(patch: Patch) -> None:
    """What statements changed is known in the process only: a later run knows the columns that tables had at first."""
    from replicator_source_mysql.streaming.schema_tracker import SchemaTracker

    true_follow = SchemaTracker.follow

    def follow(self: SchemaTracker, query: Any, after: MySqlOffset, captured: Any) -> Any:
        with Patch() as here:
            here.setattr(self, "_save", lambda: None)
            return true_follow(self, query, after, captured)

    patch.setattr(SchemaTracker, "follow", follow)


if __name__ == "__main__":
    PARTS.update(rewind=no_rewind, history=history_of_the_beginning)
    with without(sys.argv[1]):
        sys.exit(main(sys.argv[2:]))
