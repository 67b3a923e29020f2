"""Claims about the positions of DDL events: every replay repeats them, after whatever was read or copied before.

The runtime stores a DDL event's position with the table and skips the event when it comes again. It compares positions
with the offsets that tables have reached by then, among them those of heartbeats and snapshots.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import pytest

from replicator_sdk.offset import Offset
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.testing.histories.history import History, parse_history
from replicator_sdk.testing.recording import PlacedDDL, Recording, interpret, recording, schemas_at
from replicator_sdk.testing.source_system import Application, SourceClaims, SourceSystem

_TABLES = {
    "items": {"columns": {"id": "int64 not null", "name": "string"}, "key": ["id"]},
    "others": {"columns": {"id": "int64 not null", "name": "string"}, "key": ["id"]},
}


def _row(table: str, key: int) -> dict[str, object]:
    return {"insert": table, "rows": [{"id": key, "name": f"n{key}"}]}


def _column(name: str) -> dict[str, object]:
    return {"add_column": "items", "name": name, "type": "int64"}


def _history(name: str, needs: Sequence[str], *transactions: Sequence[dict[str, object]]) -> History:
    facts = {"claim": "", "needs": needs, "tables": _TABLES, "transactions": transactions}
    return parse_history(name, facts)


_EMPTY: dict[str, object] = {"truncate": "items"}
HISTORIES = [
    _history(
        "alter",
        ["add_column"],
        [_column("a")],
        [_row("items", 1)],
        [_row("others", 1)],
        [_column("b")],
        [_row("items", 2)],
    ),
    _history("truncate", ["truncate"], [_EMPTY], [_row("items", 1)], [_row("others", 1)], [_EMPTY]),
    _history(
        "alter_between_rows",
        ["add_column", "ddl_in_transaction"],
        [_row("items", 1), _row("others", 1), _column("a"), _row("items", 2), _column("b"), _row("items", 3)],
        [_row("items", 4)],
        [_row("items", 5), _column("c"), _row("others", 2)],
        [_row("items", 6)],
    ),
    _history(
        "truncate_between_rows",
        ["truncate", "ddl_in_transaction"],
        [_row("items", 1), _row("others", 1), _EMPTY, _row("items", 1)],
        [_row("items", 2), _EMPTY],
    ),
]


class DDLPositions(SourceClaims):
    """What every source promises about the positions of its DDL events."""

    repeats_ddl_positions: ClassVar[bool] = True
    """A DDL event has the same position at every replay. There is no reason to leave it False: such a source loses changes."""

    @pytest.mark.parametrize("case", HISTORIES, ids=str)
    def test_a_ddl_event_has_the_same_position_at_every_replay(self, system: SourceSystem, case: History) -> None:
        """From whatever offset was emitted, and from a snapshot's, a DDL event comes after the same offset with the same
        ordinal; no offset that was emitted, nor a snapshot's, is inside its transaction.
        """
        self._need_positions(case)
        app = Application(system, case)
        schemas = app.describe()
        snapshots: list[tuple[Offset, int]] = []
        with recording(system.source, schemas, None) as reader:
            reader.run()
            for transaction in case.transactions:
                snapshots.append((self._snapshot_position(system, app, reader), len(reader.placed())))
                app.execute(transaction)
                reader.catch_up(self.wait_seconds)
                system.rest()
                reader.catch_up(self.wait_seconds)
            logged = reader.logged()
        self._compare(system, app, reader, interpret(schemas, logged))
        placed = reader.placed()
        assert placed or not self._must_emit(case)
        for position, count in snapshots:
            assert not [str(ddl) for ddl in placed[count:] if ddl.base < position], f"before the snapshot at {position}"
        starts = [*reader.marks(), *(position for position, _ in snapshots)]
        _assert_nothing_inside(placed, starts)
        for start in sorted(set(starts)):
            then = schemas_at(schemas, logged, start)
            again = self._placed_from(system, then, start, reader.context.state)
            assert again == [ddl for ddl in placed if start < ddl.end], f"read again from {start}"

    @pytest.mark.parametrize("case", HISTORIES, ids=str)
    def test_a_ddl_event_is_after_every_offset_that_was_emitted_before_it(
        self, system: SourceSystem, case: History
    ) -> None:
        """When structure changes while no reader runs, the next reader's start makes no difference to the positions, and
        none is before an offset that an earlier reader emitted last or a snapshot had.
        """
        self._need_positions(case)
        app = Application(system, case)
        schemas = app.describe()
        with recording(system.source, schemas, None) as reader:
            reader.run()
            reader.catch_up(self.wait_seconds)
            system.rest()
            reader.catch_up(self.wait_seconds)
            snapshot = self._snapshot_position(system, app, reader)
        marks = [*reader.marks(), snapshot]
        for transaction in case.transactions:
            app.execute(transaction)
        found = [self._placed_from(system, schemas, start, reader.context.state) for start in sorted(set(marks))]
        assert found[0] or not self._must_emit(case)
        assert all(placed == found[0] for placed in found), [list(map(str, placed)) for placed in found]
        for mark in marks:
            assert not [str(ddl) for ddl in found[0] if ddl.base < mark], f"before {mark}"

    def _need_positions(self, case: History) -> None:
        self.require(case)
        if not self.repeats_ddl_positions:
            pytest.xfail("the source does not repeat the positions of DDL events yet")

    def _must_emit(self, case: History) -> bool:
        """Whether a DDL event must come; a TRUNCATE may arrive as deletes."""
        return "add_column" in case.needs and not self.alters_come_with_the_next_change

    def _snapshot_position(self, system: SourceSystem, app: Application, reader: Recording) -> Offset:
        """Where a snapshot would begin now; the reader's last offset for a source without snapshots."""
        if not self.has_snapshots:
            return reader.marks()[-1]
        with self._open(system, app.describe()[app.ids["items"]], reader) as snapshot:
            return snapshot.position

    def _placed_from(
        self, system: SourceSystem, schemas: dict[TableId, TableSchema], start: Offset, state: dict[str, bytes]
    ) -> list[PlacedDDL]:
        with recording(system.source, schemas, start, state=state) as reader:
            reader.run()
            reader.catch_up(self.wait_seconds)
            return reader.placed()


def _assert_nothing_inside(placed: Sequence[PlacedDDL], offsets: Sequence[Offset]) -> None:
    for ddl in placed:
        inside = [str(offset) for offset in offsets if ddl.base < offset < ddl.end]
        assert not inside, f"{inside} is inside the transaction of {ddl}"
