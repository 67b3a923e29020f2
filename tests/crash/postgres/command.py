"""As `tests/crash/command.py PART run pipeline.json …`, with a part of the recovery that only the PostgreSQL source has."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.crash.command import main
from tests.crash.patch import Patch
from tests.crash.removed_recovery import PARTS, without

COMMAND = (sys.executable, str(Path(__file__)))


def forget_names(patch: Patch) -> None:
    """Neither where renames were emitted is stored, nor of which table a copy is: a run knows the names emitted last."""
    from replicator_sdk.schema import TableSchema
    from replicator_source_postgres.relation_ids import RelationIds

    true_load = RelationIds.load.__func__  # type: ignore[attr-defined]

    def load(cls: type[RelationIds], stored: bytes | None) -> RelationIds:
        ids: RelationIds = true_load(cls, stored)
        ids.emitted.clear()
        return ids

    true_from_json = TableSchema.from_json.__func__  # type: ignore[attr-defined]

    def from_json(cls: type[TableSchema], value: dict[str, Any]) -> TableSchema:
        schema: TableSchema = true_from_json(cls, value)
        return replace(schema, source_id="")

    patch.setattr(RelationIds, "load", classmethod(load))
    patch.setattr(TableSchema, "from_json", classmethod(from_json))


if __name__ == "__main__":
    PARTS.update(names=forget_names)
    with without(sys.argv[1]):
        sys.exit(main(sys.argv[2:]))
