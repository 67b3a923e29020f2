"""Schemas that no kept offset needs are forgotten while an attempt goes on, which may be for months."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.engine.attempt import Attempt
from replicator_runtime.engine.lifecycle import old_schemas
from replicator_runtime.engine.lifecycle.old_schemas import forget_old_schemas
from replicator_runtime.engine.tables.table_store import TableStore
from replicator_sdk import Position
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from replicator_state import ReplicatorDirectory
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.log_model import table
from tests.runtime.engine.stream.test_ddl_recovery import Spread
from tests.runtime.engine.tables.test_table_store import FIRST, SECOND

if TYPE_CHECKING:
    from pathlib import Path

    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_sdk import Offset

_CHANGES = 30
_FEW = 10


def test_an_attempt_that_meets_many_changes_of_structure_keeps_few_schemas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were forgotten at the beginning of an attempt only, and only once one table had twenty."""
    spread, attempts = Spread(tmp_path), list[Attempt]()
    spread.document |= {"offsets": {"keepCount": 1, "keepDays": 0}, "batch": {"maxRows": 1, "maxIntervalSeconds": 0.01}}
    spread.run()
    begin, saved = Attempt.run, TableStore.save
    most = 0

    def run(self: Attempt) -> None:
        attempts.append(self)
        begin(self)

    def save(self: TableStore, record: Any = None) -> None:
        nonlocal most
        most = max([most, *(len(record.schemas) for record in self.records.values())])
        saved(self, record)

    monkeypatch.setattr(Attempt, "run", run)
    monkeypatch.setattr(TableStore, "save", save)
    for number in range(_CHANGES):
        spread.steps({"add_column": "things", "name": f"c{number}", "type": "string"})
        for row in range(3):
            spread.steps({"insert": "things", "rows": [{"id": 100 * number + row + 2, "name": "x"}]})
    spread.run()
    assert len(in_memory_target.STORAGE.rows("things")) == 1 + 3 * _CHANGES
    assert len(attempts) == 1
    assert 2 <= most <= _FEW
    records = stored(tmp_path)
    assert [len(record.schemas) <= _FEW for record in records] == [True]


def stored(folder: Path) -> list[TableRecord]:
    """The tables of the last run."""
    store = TableStore(
        ReplicatorDirectory(str(folder / "state"), "default", "spread").states().scoped("runtime"),
        MemoryOffset.from_fields,
    )
    store.load()
    return list(store.records.values())


class _Kept:
    """A run whose oldest offset is this."""

    def __init__(self, oldest: Offset | None) -> None:
        self.oldest, self.asked = oldest, 0

    def oldest_offset(self) -> Offset | None:
        self.asked += 1
        return self.oldest


def test_offsets_are_not_read_while_all_tables_have_few_schemas(tmp_path: Path) -> None:
    store = TableStore(ReplicatorDirectory(str(tmp_path), "default", "shop").states(), MemoryOffset.from_fields)
    changed, other = store.record(FIRST.table), store.record(table("b").table)
    for number in range(old_schemas._FEW):
        changed.learn(Position(MemoryOffset(number)), (FIRST, SECOND)[number % 2])
    other.learn(None, table("b"))
    run = _Kept(MemoryOffset(3))
    forget_old_schemas(run, [changed, other])
    assert run.asked == 0
    changed.learn(Position(MemoryOffset(9)), FIRST)
    forget_old_schemas(run, [changed, other])
    assert (run.asked, [since and since.offset for since, _ in changed.schemas]) == (
        1,
        [MemoryOffset(3), MemoryOffset(9)],
    )
    assert len(other.schemas) == 1


def test_schemas_of_a_table_whose_copy_runs_stay(tmp_path: Path) -> None:
    """Its own thread changes them."""
    store = TableStore(ReplicatorDirectory(str(tmp_path), "default", "shop").states(), MemoryOffset.from_fields)
    record = store.record(FIRST.table)
    for number in range(9):
        record.learn(Position(MemoryOffset(number)), (FIRST, SECOND)[number % 2])
    record.copying = True
    forget_old_schemas(_Kept(MemoryOffset(8)), [record])
    assert len(record.schemas) == 9
