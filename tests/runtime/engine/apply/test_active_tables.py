"""A table of which an operator has kept something is not copied again unasked."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.engine.apply.active_tables import ActiveTables
from replicator_runtime.engine.run_state.attempt_end import Rejoin
from replicator_runtime.engine.tables.table_state import TableState
from replicator_sdk import Column
from replicator_sdk.datatype import INT64
from replicator_sdk.errors import SnapshotNeededError
from tests.runtime.engine.lifecycle.test_table_lifecycle import A, B, lifecycle, stored

if TYPE_CHECKING:
    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle

__all__ = ["lifecycle"]


@pytest.mark.parametrize("kept", [{"keeps_rows": True}, {"kept_columns": (Column("size", INT64),)}, {}], ids=str)
def test_a_table_stops_where_a_copy_would_remove_what_was_kept(
    lifecycle: TableLifecycle,
    kept: dict[str, Any],
) -> None:
    lifecycle.takes_snapshots = True
    record = lifecycle.records[A]
    for name, value in kept.items():
        setattr(record, name, value)
    tables = ActiveTables(lifecycle, {}, SimpleNamespace(drop=lambda _: None), {})  # type: ignore[arg-type]
    error = SnapshotNeededError("a row has moved", code="RPL-5403")
    if not kept:
        with pytest.raises(Rejoin):
            tables.failed(A, error)
        assert stored(lifecycle)[A].needs_snapshot
        return
    tables.failed(A, error)
    found = stored(lifecycle)[A]
    assert (found.needs_snapshot, found.state, lifecycle.records[B].state) == (
        False,
        TableState.FAILING,
        TableState.REPLICATING,
    )
    assert found.error is not None
    assert found.error["code"] == "RPL-6005"
    assert found.keeps_rows or found.kept_columns
