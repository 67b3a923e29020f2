"""A table that may have fewer changes than the saved offset says is not compared; so nothing of it is reported as different."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from replicator_runtime.engine.tables.pause import Pause
from replicator_runtime.engine.tables.table_state import TableState
from replicator_runtime.engine.tables.table_store import SnapshotRecord, TableRecord
from replicator_runtime.engine.verification.comparable import check_same
from replicator_runtime.engine.verification.reading import Reading
from replicator_sdk import Column, NumberOffset, TableId
from replicator_sdk.datatype import INT64
from replicator_sdk.errors import NeedsUserError

TABLE = TableId("shop", "orders")


def record(**more: Any) -> TableRecord:
    snapshot = SnapshotRecord("copy", (), NumberOffset(1), NumberOffset(1), done=True)
    made = TableRecord(TABLE, state=TableState.REPLICATING, snapshot=snapshot)
    for name, value in more.items():
        setattr(made, name, value)
    return made


def check(now: TableRecord | None, *, rewinding: bool = False) -> None:
    records = {} if now is None else {TABLE: now}
    reading = SimpleNamespace(records=lambda: records, is_rewinding=lambda: rewinding)
    check_same(cast("Reading", reading), record(), frozenset())


def test_a_table_that_works_is_compared() -> None:
    check(record())


@pytest.mark.parametrize(
    "now",
    [
        None,
        record(snapshot=None),
        record(snapshot=SnapshotRecord("another", (), NumberOffset(2), NumberOffset(2), done=True)),
        record(state=TableState.PAUSED, pause=Pause("lane", "request", 0.0)),
        record(pause=Pause("lane", "request", 0.0, resuming=True)),
        record(state=TableState.FAILING),
    ],
    ids=["gone", "to be copied", "another copy", "paused", "resumed and not joined", "failing"],
)
def test_a_table_that_may_be_elsewhere_is_refused(now: TableRecord | None) -> None:
    with pytest.raises(NeedsUserError) as raised:
        check(now)
    assert raised.value.code == "RPL-1365"


def test_a_table_beside_an_unfinished_rewind_is_refused() -> None:
    with pytest.raises(NeedsUserError) as raised:
        check(record(), rewinding=True)
    assert raised.value.code == "RPL-1365"


def test_a_table_with_kept_columns_is_refused() -> None:
    with pytest.raises(NeedsUserError) as raised:
        check(record(kept_columns=(Column("size", INT64),)))
    assert raised.value.code == "RPL-1364"
    assert "size" in raised.value.message
