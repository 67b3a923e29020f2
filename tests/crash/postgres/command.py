"""As `tests/crash/command.py PART run pipeline.json …`, with a part of the recovery that only the PostgreSQL source has."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.crash.command import main
from tests.crash.patch import Patch
from tests.crash.removed_recovery import PARTS, without

COMMAND = (sys.executable, str(Path(__file__)))


def forget_names(patch: Patch) -> None:
    """Where renames were emitted is not stored: a run knows the names that were emitted last."""
    from replicator_source_postgres.relation_ids import RelationIds

    true_load = RelationIds.load.__func__  # type: ignore[attr-defined]

    def load(cls: type[RelationIds], stored: bytes | None) -> RelationIds:
        ids: RelationIds = true_load(cls, stored)
        ids.emitted.clear()
        return ids

    patch.setattr(RelationIds, "load", classmethod(load))


if __name__ == "__main__":
    PARTS.update(names=forget_names)
    with without(sys.argv[1]):
        sys.exit(main(sys.argv[2:]))
