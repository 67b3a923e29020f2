"""A copy in memory of one table: follows its source as the runtime does, and copies it again when the source requires it."""

from __future__ import annotations

from typing import Any

from replicator_sdk import DDLEvent, DDLOperation
from replicator_sdk.batch import ChangeBatch
from replicator_sdk.errors import SnapshotNeededError
from tests.plugins.sources.postgres.pump import Pump, Run

Row = dict[str, Any]


class Replica:
    """One keyed table.

    Attributes:
        rows: The copy, by key.
        copies: How often it was copied again.
    """

    def __init__(self, pump: Pump, name: str) -> None:
        self.pump, self.name = pump, name
        self.rows: dict[tuple[Any, ...], Row] = {}
        self.copies = 0
        pump.prepare()
        self.copy()

    def copy(self) -> None:
        """Take a snapshot; the log is read from its position on."""
        snapshot, rows = self.pump.snapshot(self.name)
        self.pump.offset, self.pump.schemas = snapshot.position, {snapshot.schema.table: snapshot.schema}
        self.rows = {}
        for row in rows.to_pylist():
            self._put(row)

    def catch_up(self) -> None:
        """Read everything committed so far, in a run of its own."""
        for _ in range(3):
            # The log must continue after the snapshot's position, so that the read has an end.
            self.pump.database.execute("SELECT pg_logical_emit_message(true, 'test', '')")
            try:
                if self.apply(self.pump.read()):
                    return
            except SnapshotNeededError as error:
                asked_for = error.table
            else:
                asked_for = f"public.{self.name}"
            assert asked_for == f"public.{self.name}"
            self._copy_again()
        raise AssertionError("copied again and again")

    def apply(self, run: Run) -> bool:
        """Apply what a run emitted; False when the table has to be copied again."""
        for event in run.events:
            if isinstance(event, DDLEvent):
                if event.needs_snapshot:
                    return False
                if event.operation is DDLOperation.TRUNCATE_TABLE:
                    self.rows.clear()
                for alter in event.alters:
                    if alter.kind == "ADD_COLUMN" and alter.column is not None:
                        for row in self.rows.values():
                            row[alter.column.name] = alter.default
                assert event.schema is not None
                self.pump.schemas = {event.table: event.schema}
            else:
                self._apply_changes(event)
        return True

    def _apply_changes(self, batch: ChangeBatch) -> None:
        befores = batch.before.to_pylist() if batch.before is not None else [None] * len(batch)
        for op, row, before in zip(batch.op.to_pylist(), batch.row.to_pylist(), befores, strict=True):
            if op != 1:
                self.rows.pop(self._key(before or row), None)
            if op != 3:
                self._put(row)

    def _copy_again(self) -> None:
        self.copies += 1
        self.copy()

    def _key(self, row: Row) -> tuple[Any, ...]:
        (schema,) = self.pump.schemas.values()
        return tuple(row[name] for name in schema.primary_key)

    def _put(self, row: Row) -> None:
        self.rows[self._key(row)] = row

    def assert_equal(self) -> None:
        """The copy has the source's rows."""
        (schema,) = self.pump.schemas.values()
        listed = ", ".join(f'"{column.name}"' for column in schema.columns)
        found = self.pump.database.execute(f"SELECT {listed} FROM {self.name}")
        source = sorted(tuple(map(str, row)) for row in found)
        copied = sorted(tuple(str(row[name]) for name in schema.names) for row in self.rows.values())
        assert copied == source
